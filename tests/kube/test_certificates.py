"""Certificates that are made here, as TLS clients see them."""

import ssl
from datetime import UTC, datetime, timedelta

import pytest
import trustme

from kube.certificates import (
    AUTHORITY_LIFETIME,
    SERVING_LIFETIME,
    CertificateError,
    KeyPair,
    check_pair,
    facts_of,
    is_issued_by,
    issue,
    make_authority,
    split_bundle,
    utc_now,
)
from kube.tls import ServingContext

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
HOSTS = ("gate.gpu.svc", "gate.gpu.svc.cluster.local")


def handshake(
    serving: ServingContext, bundle: bytes, host: str | None, shown: trustme.LeafCert | None = None
) -> bytes:
    """Let a strict client that trusts *bundle* meet the server; return what was presented."""
    client_context = ssl.create_default_context(cadata=bundle.decode())
    client_context.verify_flags |= ssl.VERIFY_X509_STRICT
    client_context.check_hostname = host is not None
    if shown is not None:
        shown.configure_cert(client_context)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_context.wrap_bio(to_client, to_server, server_hostname=host)
    server = serving.context.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(5):
        for side in (client, server):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return client.getpeercert(binary_form=True) or b""


def serving_with(pair: KeyPair) -> ServingContext:
    """Return a server's side that presents *pair*."""
    serving = ServingContext()
    serving.use(pair)
    return serving


@pytest.mark.parametrize("host", HOSTS)
def test_a_strict_client_trusts_what_the_authority_signed(host: str) -> None:
    """Both names of the Service are valid, others are not."""
    authority = make_authority("gate", utc_now())
    serving = serving_with(issue(authority, HOSTS, utc_now()))
    assert handshake(serving, authority.certificate_pem, host)
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        handshake(serving, authority.certificate_pem, "gate.other.svc")


@pytest.mark.parametrize("address", ["10.1.2.3", "fd00::1"])
def test_a_certificate_may_be_for_an_address(address: str) -> None:
    """Clients that connect to it trust it, and those of another address do not."""
    authority = make_authority("gate", utc_now())
    pair = issue(authority, (*HOSTS, address), utc_now())
    assert facts_of(pair.certificate_pem).hosts == {*HOSTS, address}
    for host in (*HOSTS, address):
        assert handshake(serving_with(pair), authority.certificate_pem, host)
    with pytest.raises(ssl.SSLCertVerificationError, match="IP address mismatch"):
        handshake(serving_with(pair), authority.certificate_pem, "10.9.9.9")


def test_one_of_two_authorities_is_found() -> None:
    """A bundle may hold an old and a new one in any order."""
    old, new = (make_authority("gate", utc_now()) for _ in range(2))
    both = old.certificate_pem + new.certificate_pem
    serving = serving_with(issue(new, HOSTS, utc_now()))
    assert handshake(serving, both, HOSTS[0])
    assert handshake(serving_with(issue(old, HOSTS, utc_now())), both, HOSTS[0])
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(serving, old.certificate_pem, HOSTS[0])


def test_a_serving_certificate_signs_nothing() -> None:
    """Whoever steals it cannot make others."""
    authority = make_authority("gate", utc_now())
    stolen = issue(authority, HOSTS, utc_now())
    forged = issue(stolen, ("api.kube-system.svc",), utc_now())
    chain = KeyPair(forged.certificate_pem + stolen.certificate_pem, forged.key_pem)
    with pytest.raises(ssl.SSLCertVerificationError, match=r"invalid CA certificate|path length"):
        handshake(serving_with(chain), authority.certificate_pem, "api.kube-system.svc")


def test_lifetimes_and_renewal() -> None:
    """Ten years and one, due after two thirds; an hour old at once, for clocks that are behind."""
    authority = make_authority("gate", NOW)
    leaf = issue(authority, HOSTS, NOW)
    assert facts_of(leaf.certificate_pem).hosts == frozenset(HOSTS)
    for pair, lifetime in ((authority, AUTHORITY_LIFETIME), (leaf, SERVING_LIFETIME)):
        facts = facts_of(pair.certificate_pem)
        assert facts.not_after - facts.not_before == lifetime
        assert facts.not_before == NOW - timedelta(hours=1)
        assert facts.age(NOW + timedelta(days=1)) == timedelta(days=1)
        assert not facts.is_due(NOW + lifetime * 0.66)
        assert facts.is_due(NOW + lifetime * 0.67)


def test_a_long_name_of_a_service_is_no_obstacle() -> None:
    """It stands whole in the alternative names."""
    host = f"{'a' * 63}.{'b' * 63}.svc"
    authority = make_authority("x" * 100, utc_now())
    assert handshake(
        serving_with(issue(authority, (host,), utc_now())), authority.certificate_pem, host
    )


def test_pairs_and_signers_are_recognized() -> None:
    """A key of another certificate and an authority of the same name are not taken."""
    one, other = make_authority("gate", NOW), make_authority("gate", NOW)
    check_pair(one)
    with pytest.raises(CertificateError, match="do not belong together"):
        check_pair(KeyPair(one.certificate_pem, other.key_pem))
    leaf = issue(one, HOSTS, NOW)
    assert is_issued_by(leaf.certificate_pem, one.certificate_pem)
    assert not is_issued_by(leaf.certificate_pem, other.certificate_pem)
    assert not is_issued_by(b"", one.certificate_pem)


def test_a_bundle_is_split() -> None:
    """Text around the certificates is left out; nothing at all is an error."""
    one, other = make_authority("gate", NOW), make_authority("gate", NOW)
    text = b"# one\n" + one.certificate_pem + b"# other\n" + other.certificate_pem
    assert split_bundle(text) == (one.certificate_pem, other.certificate_pem)
    for broken in (b"", b"-----BEGIN CERTIFICATE-----\nAA\n-----END CERTIFICATE-----\n"):
        with pytest.raises(CertificateError):
            split_bundle(broken)


def test_what_others_make_is_read_too() -> None:
    """A certificate without names has none; a key of another kind is refused to sign."""
    authority = trustme.CA(key_type=trustme.KeyType.RSA)
    assert facts_of(authority.cert_pem.bytes()).hosts == frozenset()
    pair = KeyPair(authority.cert_pem.bytes(), authority.private_key_pem.bytes())
    with pytest.raises(CertificateError, match="elliptic curve"):
        issue(pair, HOSTS, NOW)


def test_a_key_is_never_shown() -> None:
    """Neither the pair nor an error holds it."""
    pair = make_authority("gate", NOW)
    secret = pair.key_pem.decode().splitlines()[1]
    assert secret not in repr(pair)
    with pytest.raises(CertificateError) as refused:
        check_pair(KeyPair(pair.certificate_pem, pair.key_pem[:-40]))
    assert secret not in str(refused.value)
    assert secret not in repr(refused.value.__cause__)
