"""A server's certificate that changes, without a server around it."""

import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path

import pytest
import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from kube.certificates import CertificateError, KeyPair, issue, make_authority, utc_now
from kube.errors import ConnectionFailedError
from kube.tls import CertificateWatch, PairFiles, ServingContext
from tests.kube.test_certificates import handshake

HOST = "gate.gpu.svc"


class Clock:
    """A time that is set."""

    def __init__(self) -> None:
        self.now = utc_now()

    def __call__(self) -> datetime:
        """Return it."""
        return self.now


def pair_of(authority: trustme.CA, key_type: trustme.KeyType) -> KeyPair:
    """Return a pair of a kind."""
    made = authority.issue_cert(HOST, key_type=key_type)
    return KeyPair(made.cert_chain_pems[0].bytes(), made.private_key_pem.bytes())


def test_the_newest_pair_is_presented_whatever_its_kind() -> None:
    """OpenSSL would keep an elliptic one beside a newer RSA one, and prefer it."""
    authority, serving = trustme.CA(), ServingContext()
    seen = set()
    for kind in (trustme.KeyType.ECDSA, trustme.KeyType.RSA, trustme.KeyType.ECDSA):
        assert serving.use(pair_of(authority, kind))
        for host in (HOST, None):
            seen.add(handshake(serving, authority.cert_pem.bytes(), host))
    assert len(seen) == 3


def test_the_same_pair_again_is_no_change() -> None:
    """Nothing is loaded twice."""
    serving = ServingContext()
    pair = pair_of(trustme.CA(), trustme.KeyType.ECDSA)
    assert [serving.use(pair), serving.use(pair)] == [True, False]


def test_without_a_certificate_nobody_is_served() -> None:
    """The handshake fails and the check says why."""
    serving = ServingContext()
    assert serving.problem() == "there is no certificate yet"
    with pytest.raises(OSError, match=r"(?i)internal.error|callback"):
        handshake(serving, trustme.CA().cert_pem.bytes(), HOST)


def test_an_expired_pair_does_not_replace_a_valid_one() -> None:
    """Where there is none it is taken, and the check says what is wrong with it."""
    clock = Clock()
    authority = make_authority("gate", utc_now())
    old = issue(authority, (HOST,), utc_now() - timedelta(days=500))
    serving = ServingContext(clock=clock)
    serving.use(old)
    assert str(serving.problem()).startswith("the certificate expired on ")
    serving.use(issue(authority, (HOST,), utc_now()))
    assert serving.problem() is None
    with pytest.raises(CertificateError, match="expired on"):
        serving.use(old)
    clock.now += timedelta(days=400)
    assert serving.problem() is not None


def test_a_key_with_a_password_is_refused() -> None:
    """Nobody is asked for it at a terminal."""
    pair = pair_of(trustme.CA(), trustme.KeyType.ECDSA)
    locked = load_pem_private_key(pair.key_pem, None).private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"word")
    )
    with pytest.raises(CertificateError, match="certificate and key cannot be used"):
        ServingContext().use(KeyPair(pair.certificate_pem, locked))


def test_clients_can_be_made_to_show_a_certificate(tmp_path: Path) -> None:
    """A stranger is turned away also after the pair has changed."""
    ca_file = tmp_path / "clients.crt"
    clients = trustme.CA()
    clients.cert_pem.write_to_path(str(ca_file))
    authority, serving = trustme.CA(), ServingContext(client_ca_file=ca_file)
    bundle = authority.cert_pem.bytes()
    for _ in range(2):
        serving.use(pair_of(authority, trustme.KeyType.ECDSA))
        with pytest.raises(OSError, match="did not return a certificate"):
            handshake(serving, bundle, HOST)
        with pytest.raises(OSError, match="certificate verify failed"):
            handshake(serving, bundle, HOST, trustme.CA().issue_cert("ann@x"))
        assert handshake(serving, bundle, HOST, clients.issue_cert("ann@x"))


def test_files_are_read_as_of_one_moment(tmp_path: Path) -> None:
    """A pair that changes between two reads is read again."""
    (tmp_path / "c").write_bytes(b"c1")
    (tmp_path / "k").write_bytes(b"k1")

    class Swapped(PairFiles):
        reads = 0

        def _once(self) -> KeyPair:
            pair = super()._once()
            self.reads += 1
            if self.reads == 1:
                (tmp_path / "c").write_bytes(b"c2")
                (tmp_path / "k").write_bytes(b"k2")
                return KeyPair(pair.certificate_pem, b"k2")
            return pair

    assert Swapped(tmp_path / "c", tmp_path / "k")() == KeyPair(b"c2", b"k2")


def test_an_unknown_failure_of_the_source_is_reported_while_there_is_nothing_else() -> None:
    """Once a pair serves, a source that is away is no reason to be of no use."""
    pair = pair_of(trustme.CA(), trustme.KeyType.ECDSA)
    failures: list[int] = []
    loaded: list[datetime] = []
    answers: list[KeyPair | Exception] = [
        ConnectionFailedError("GET /x: refused"),
        pair,
        ConnectionFailedError("GET /x: refused"),
    ]

    def source() -> KeyPair:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    watch = CertificateWatch(
        source,
        ServingContext(),
        on_loaded=loaded.append,
        on_failed=lambda: failures.append(1),
    )
    assert watch.look() is False
    assert watch.problem() == "there is no certificate yet: GET /x: refused"
    assert watch.look() is True
    assert watch.problem() is None
    assert watch.look() is True
    assert watch.problem() is None
    assert (len(failures), len(loaded)) == (2, 1)


def test_the_node_agent_never_loads_any_of_it() -> None:
    """`cryptography` takes memory on every node of a cluster."""
    program = "import sys, dra.__main__; print('cryptography' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)  # noqa: S603
    assert ran.stdout.split() == [b"False"]
