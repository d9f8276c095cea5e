"""A serving certificate that is replaced while connections are served.

Loading a pair into a context that is in use has two traps. OpenSSL keeps one certificate for each
type of key, so after a change from one type to another the old one may still be presented. And a
pair whose second half turns out unusable has by then replaced the first half of the old one. So
each pair gets a context of its own, and every handshake is led to the newest. Connections that
stand are not touched.

OpenSSL takes certificates by path only, hence a file in memory: between looking at two files and
having them loaded they may change, and a key belongs on no disk. It would ask for the password of
an encrypted key at the terminal, if it were not given one.
"""

import contextlib
import os
import ssl
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

import structlog

from kube.certificates import CertificateError, KeyPair, facts_of, utc_now
from kube.errors import KubeError

log = structlog.get_logger(__name__)

PairSource = Callable[[], KeyPair]
"""Returns the newest pair; raises `CertificateError` or `KubeError`."""

_READS = 3
"""Tries to read two files as of one moment."""


class ServingContext:
    """The TLS side of a server; `use` may be called in any thread."""

    def __init__(
        self, *, client_ca_file: Path | None = None, clock: Callable[[], datetime] = utc_now
    ) -> None:
        """Begin without a certificate; with *client_ca_file* clients must show theirs."""
        self._client_ca_file = client_ca_file
        self._clock = clock
        self._pair: KeyPair | None = None
        self._newest: ssl.SSLContext | None = None
        self._expires_at: datetime | None = None
        self.context = self._bare()
        """What a server is given once and for all."""
        self.context.sni_callback = self._lead

    @property
    def expires_at(self) -> datetime | None:
        """When the pair in use expires."""
        return self._expires_at

    def use(self, pair: KeyPair) -> bool:
        """Present *pair* from now on; return whether that is a change.

        Raises `CertificateError` for a pair that is no better than the one in use, which stays.
        """
        if pair == self._pair:
            return False
        expires_at = facts_of(pair.certificate_pem).not_after
        if self._pair is not None and expires_at <= self._clock():
            message = f"the certificate expired on {expires_at:%Y-%m-%d}"
            raise CertificateError(message)
        context = self._bare()
        with _in_memory(pair.certificate_pem + b"\n" + pair.key_pem) as path:
            try:
                context.load_cert_chain(path, password="")
            except (OSError, ValueError) as error:
                reason = getattr(error, "reason", None) or type(error).__name__
                message = f"certificate and key cannot be used: {reason}"
                raise CertificateError(message) from error
        self._newest, self._pair, self._expires_at = context, pair, expires_at
        return True

    def problem(self) -> str | None:
        """Return why nobody would trust what is presented now, `None` if somebody may."""
        if self._expires_at is None:
            return "there is no certificate yet"
        if self._expires_at <= self._clock():
            return f"the certificate expired on {self._expires_at:%Y-%m-%d}"
        return None

    def _bare(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        if self._client_ca_file is not None:
            context.load_verify_locations(self._client_ca_file)
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    def _lead(
        self, connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext
    ) -> int | None:
        """Let the handshake go on with the newest pair; called for clients without a name too."""
        if self._newest is None:
            return ssl.ALERT_DESCRIPTION_INTERNAL_ERROR
        connection.context = self._newest
        return None


class PairFiles:
    """A pair in two files that others replace."""

    def __init__(self, certificate: Path, key: Path) -> None:
        self._certificate, self._key = certificate, key

    def __call__(self) -> KeyPair:
        """Read the pair; raises `CertificateError` where a file cannot be read."""
        # They may be exchanged between the first read and the second.
        pair = self._once()
        for _ in range(_READS):
            before, pair = pair, self._once()
            if pair == before:
                break
        return pair

    def _once(self) -> KeyPair:
        return KeyPair(_read(self._certificate), _read(self._key))


class CertificateWatch:
    """Brings what a source has into use; failures are logged when they begin or change."""

    def __init__(
        self,
        source: PairSource,
        serving: ServingContext,
        *,
        on_loaded: Callable[[datetime], None] = lambda _expires_at: None,
        on_failed: Callable[[], None] = lambda: None,
    ) -> None:
        """Prepare; *on_loaded* hears when a new pair expires, *on_failed* of each bad look."""
        self._source, self._serving = source, serving
        self._on_loaded, self._on_failed = on_loaded, on_failed
        self._failure = ""

    def look(self) -> bool:
        """Look once and return whether there is a pair in use, be it an old one."""
        try:
            changed = self._serving.use(self._source())
        except (CertificateError, KubeError) as error:
            self._on_failed()
            if str(error) != self._failure:
                self._failure = str(error)
                log.error("certificate not taken", reason=self._failure)
            return self._serving.expires_at is not None
        self._failure = ""
        expires_at = self._serving.expires_at
        if changed and expires_at is not None:
            self._on_loaded(expires_at)
            log.info("certificate taken", expires_at=expires_at.isoformat())
        return True

    def problem(self) -> str | None:
        """Return why the server is of no use, `None` when it is."""
        problem = self._serving.problem()
        return f"{problem}: {self._failure}" if problem and self._failure else problem


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        message = f"{path} cannot be read: {error.strerror}"
        raise CertificateError(message) from error


@contextlib.contextmanager
def _in_memory(content: bytes) -> Iterator[str]:
    descriptor = os.memfd_create("pair")
    try:
        with os.fdopen(descriptor, "wb", closefd=False) as file:
            file.write(content)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
