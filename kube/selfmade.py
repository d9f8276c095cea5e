"""A serving certificate that the replicas of a program make and share in a Secret.

What may be done when is decided in `next_content`; between two steps everybody has the time to
follow, so that no client ever meets a certificate that it does not trust:

- a new authority signs nothing for ten minutes: first it must stand in every webhook configuration
  and in every API server's copy of these;
- an old one is trusted for an hour after the serving certificate is no longer its own: other
  replicas look once a minute;
- where the Secret is deleted, those who still serve its certificate make a new authority beside it.

Of two replicas that write at once, one wins by the resource version; the other reads again.
"""

import base64
import binascii
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import structlog

from kube.certificates import (
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
from kube.client import Client
from kube.errors import ConflictError, ForbiddenError, NotFoundError
from kube.objects import JsonObject
from kube.owners import Owners, kept, nobody
from kube.paths import resource

log = structlog.get_logger(__name__)

SETTLED: Final = timedelta(minutes=10)
FOLLOWED: Final = timedelta(hours=1)
MANAGER: Final = {"app.kubernetes.io/managed-by": "gpuslice"}

_CERTIFICATE, _KEY = "tls.crt", "tls.key"
_AUTHORITIES, _AUTHORITY_KEY = "ca.crt", "ca.key"
_FIELDS: Final = (_CERTIFICATE, _KEY, _AUTHORITIES, _AUTHORITY_KEY)
_TRIES: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """What the Secret holds."""

    authority: KeyPair
    """The one that signs."""
    older: tuple[bytes, ...] = ()
    """Certificates of earlier ones that are trusted still."""
    serving: KeyPair

    @property
    def bundle(self) -> bytes:
        """All authorities to trust, PEM."""
        return b"".join((self.authority.certificate_pem, *self.older))


def next_content(
    content: Content | None, *, name: str, hosts: Sequence[str], now: datetime
) -> Content:
    """Return what the Secret should hold now; *content* itself when that is right."""
    if content is None:
        authority = make_authority(name, now)
        return Content(authority=authority, serving=issue(authority, hosts, now))
    signing = facts_of(content.authority.certificate_pem)
    if signing.is_due(now):
        return with_new_authority(content, name=name, now=now)
    serving = facts_of(content.serving.certificate_pem)
    own = is_issued_by(content.serving.certificate_pem, content.authority.certificate_pem)
    settled = signing.age(now) >= SETTLED or not content.older
    if (not own or serving.is_due(now) or serving.hosts != frozenset(hosts)) and (
        settled or serving.not_after <= now
    ):
        fresh = issue(content.authority, hosts, now)
        return Content(authority=content.authority, older=content.older, serving=fresh)
    if content.older and own and serving.age(now) >= FOLLOWED:
        return Content(authority=content.authority, serving=content.serving)
    return content


def with_new_authority(content: Content, *, name: str, now: datetime) -> Content:
    """Return *content* with an authority that signs from now on; what serves stays."""
    older = (content.authority.certificate_pem, *content.older)
    valid = tuple(each for each in older if facts_of(each).not_after > now)
    return Content(authority=make_authority(name, now), older=valid, serving=content.serving)


class SelfMade:
    """Keeps the Secret right and knows what it holds."""

    def __init__(
        self,
        client: Client,
        *,
        namespace: str,
        name: str,
        hosts: Sequence[str],
        owners: Owners = nobody,
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        """Prepare; *owners* are those of a Secret that is made here."""
        self._client = client
        self._owners = owners
        self._last_owners: JsonObject = {}
        self._looked = False
        self._namespace, self._name = namespace, name
        self._hosts = tuple(hosts)
        self._clock = clock
        self._content: Content | None = None

    @property
    def bundle(self) -> bytes | None:
        """The authorities to trust as last seen, PEM."""
        return None if self._content is None else self._content.bundle

    def __call__(self) -> KeyPair:
        """Bring the Secret up to date and return the pair to serve with.

        Raises `KubeError`, and `CertificateError` for a Secret of somebody else.
        """
        for _ in range(_TRIES):
            try:
                self._content = self._settle()
            except ConflictError:
                continue
            return self._content.serving
        message = f"Secret {self._namespace}/{self._name} is changed by others all the time"
        raise CertificateError(message)

    def _settle(self) -> Content:
        now = self._clock()
        try:
            said = self._client.get(self._path(self._name))
        except NotFoundError:
            wanted = self._anew(now)
            self._client.create(self._path(), self._secret(wanted))
            log.info("certificates made", name=self._name)
            return wanted
        secret = json.loads(said)
        self._last_owners = kept(secret["metadata"])
        held = _content(secret)
        if held is None and not _is_ours(secret):
            message = f"Secret {self._namespace}/{self._name} is not one that was made here"
            raise CertificateError(message)
        wanted = self._anew(now) if held is None else self._next(held, now)
        is_adopted = self._adopt(secret["metadata"])
        if wanted is not held or is_adopted:
            self._replace(secret | {"data": _data(wanted)}, is_adopted=is_adopted)
        if wanted is not held:
            log.info("certificates renewed", name=self._name)
        return wanted

    def _replace(self, secret: JsonObject, *, is_adopted: bool) -> None:
        try:
            self._client.replace(self._path(self._name), secret)
        except ForbiddenError as error:
            if not is_adopted:
                raise
            # Where owners are guarded they are set by those alone who may delete the object.
            log.info("secret left without an owner", name=self._name, error=str(error))
            metadata = secret["metadata"].copy()
            del metadata["ownerReferences"]
            self._client.replace(self._path(self._name), secret | {"metadata": metadata})

    def _adopt(self, metadata: JsonObject) -> bool:
        """Give a Secret that a release without owners has made its owner; tell whether it has one.

        The Service is asked for once, whether it can be read or not.
        """
        if self._looked or kept(metadata):
            return False
        found = self._owners()
        self._looked = True
        metadata |= found
        return bool(found)

    def _anew(self, now: datetime) -> Content:
        if self._content is None:
            return self._next(None, now)
        return with_new_authority(self._content, name=self._name, now=now)

    def _next(self, content: Content | None, now: datetime) -> Content:
        return next_content(content, name=self._name, hosts=self._hosts, now=now)

    def _path(self, name: str | None = None) -> str:
        return resource("v1", "secrets", namespace=self._namespace, name=name)

    def _secret(self, content: Content) -> JsonObject:
        metadata = {"name": self._name, "namespace": self._namespace, "labels": MANAGER}
        return {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": metadata | (self._owners() or self._last_owners),
            "type": "kubernetes.io/tls",
            "data": _data(content),
        }


def _is_ours(secret: JsonObject) -> bool:
    labels = secret["metadata"].get("labels") or {}
    return not secret.get("data") or MANAGER.items() <= labels.items()


def _data(content: Content) -> JsonObject:
    values = (
        content.serving.certificate_pem,
        content.serving.key_pem,
        content.bundle,
        content.authority.key_pem,
    )
    return {
        field: base64.b64encode(value).decode()
        for field, value in zip(_FIELDS, values, strict=True)
    }


def _content(secret: JsonObject) -> Content | None:
    """Return what *secret* holds, `None` if that is not whole."""
    try:
        data = secret.get("data") or {}
        values = [base64.b64decode(data[field], validate=True) for field in _FIELDS]
        current, *older = split_bundle(values[2])
        content = Content(
            authority=KeyPair(current, values[3]),
            older=tuple(older),
            serving=KeyPair(values[0], values[1]),
        )
        check_pair(content.authority)
        check_pair(content.serving)
    except (LookupError, TypeError, AttributeError, CertificateError, binascii.Error) as error:
        log.warning("certificates not whole", error=type(error).__name__)
        return None
    return content
