"""A candidate for a Lease: reads, takes, renews and releases it, and knows whether it leads.

As in client-go (`tools/leaderelection`): the times that others write into the Lease are not
believed, since their clocks may differ from ours. A lease counts as expired when it has stood
unchanged for its duration since *we* saw it change. Every write names the resource version it
replaces, so of two candidates only one succeeds.

A holder believes in itself for less time than the others do, and counts from the moment before it
sent the renewal, they from the moment after they read it: it has stopped before they begin.
"""

import json
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from kube.client import Client
from kube.errors import ConflictError, ForbiddenError, NotFoundError
from kube.objects import JsonObject
from kube.owners import Owners, kept, nobody
from kube.paths import leases

_ADDRESS_MARK: Final = "@"
_RELEASED_S: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """The times of an election; the defaults are those of Kubernetes' own components."""

    lease_s: int = 15
    """For how long the others wait for a sign of life."""
    renew_deadline_s: float = 10.0
    """For how long a renewal is believed by the holder itself."""
    retry_s: float = 2.0

    def __post_init__(self) -> None:
        if not 0 < self.retry_s < self.renew_deadline_s < self.lease_s:
            message = "an election needs 0 < retry_s < renew_deadline_s < lease_s"
            raise ValueError(message)


def identity_of(pod_name: str, address: str) -> str:
    """Return a `holderIdentity` that no other process has; *address* is `host:port`."""
    return f"{pod_name}_{secrets.token_hex(4)}{_ADDRESS_MARK}{address}"


def address_in(identity: str) -> str | None:
    """Return the address in *identity*."""
    return identity.partition(_ADDRESS_MARK)[2] or None


@dataclass(frozen=True, slots=True)
class _Term:
    since_s: float
    until_s: float


@dataclass(frozen=True, slots=True)
class _Seen:
    """A state of the Lease and when it was first seen."""

    holder: str
    fingerprint: str
    expires_s: float


class Candidate:
    """One who wants the Lease; one thread calls `attempt`, any may ask."""

    def __init__(  # noqa: PLR0913 - what to hold, as whom
        self,
        client: Client,
        *,
        namespace: str,
        name: str,
        identity: str,
        terms: Terms | None = None,
        owners: Owners = nobody,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare; *identity* must be this process's alone (see `identity_of`).

        *owners* are those of a Lease that is made here.
        """
        self.terms = terms or Terms()
        self._client = client
        self._collection = leases(namespace)
        self._path = leases(namespace, name)
        self._metadata = {"name": name, "namespace": namespace}
        self._identity = identity
        self._owners = owners
        self._last_owners: JsonObject = {}
        self._clock = clock
        self._term: _Term | None = None
        self._seen: _Seen | None = None
        self._written: JsonObject | None = None

    def leading_since(self) -> float | None:
        """Return since when it leads without a gap, by its clock, or `None`."""
        term = self._term
        return term.since_s if term is not None and self._clock() < term.until_s else None

    def remaining_s(self) -> float:
        """Return for how long it will lead without another renewal."""
        term = self._term
        return 0.0 if term is None else max(0.0, term.until_s - self._clock())

    def holder(self) -> str | None:
        """Return the identity of the one who leads, as far as is known."""
        if self.leading_since() is not None:
            return self._identity
        seen = self._seen
        if seen is None or seen.holder in {"", self._identity} or self._expired(seen):
            return None
        return seen.holder

    def attempt(self) -> None:
        """Renew the Lease, or take it if it is free; raises `KubeError`."""
        if self._written is not None and self.leading_since() is not None:
            try:
                self._write(self._written)
            except (ConflictError, NotFoundError):
                # Somebody has changed or deleted it: look.
                self._written = None
            else:
                return
        lease = self._read()
        if lease is None:
            self._create()
        elif self._may_take(self._note(lease)):
            self._take(lease)

    def _take(self, lease: JsonObject) -> None:
        """Take *lease*, and give one that a release without owners has made its owner."""
        if not self._last_owners and (owners := self._owners()):
            try:
                self._write(lease | {"metadata": lease["metadata"] | owners})
            except ForbiddenError:
                # Where owners are guarded they are set by those alone who may delete the object.
                pass
            else:
                return
        self._write(lease)

    def resign(self) -> None:
        """Stop leading without telling the others."""
        self._term = None

    def release(self) -> None:
        """Give the Lease back, so that another takes it at once; raises `KubeError`."""
        self.resign()
        lease, self._written = self._written, None
        if lease is None:
            return
        spec = _spec_of(lease) | {
            "holderIdentity": "",
            "leaseDurationSeconds": _RELEASED_S,
            "renewTime": _timestamp(),
        }
        self._client.replace(self._path, lease | {"spec": spec})

    def _read(self) -> JsonObject | None:
        try:
            found: JsonObject = json.loads(self._client.get(self._path))
        except NotFoundError:
            return None
        return found

    def _create(self) -> None:
        metadata = self._metadata | (self._owners() or self._last_owners)
        sent_s = self._clock()
        body = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": metadata,
            "spec": self._spec({}),
        }
        try:
            made = self._client.create(self._collection, body)
        except ConflictError:
            # Another was faster. If it was deleted under us, we lead no more.
            self.resign()
            return
        self._took(json.loads(made), sent_s)

    def _write(self, lease: JsonObject) -> None:
        sent_s = self._clock()
        kept = self._client.replace(self._path, lease | {"spec": self._spec(_spec_of(lease))})
        self._took(json.loads(kept), sent_s)

    def _took(self, lease: JsonObject, sent_s: float) -> None:
        since_s = self.leading_since()
        self._note(lease)
        self._written = lease
        until_s = sent_s + self.terms.renew_deadline_s
        self._term = _Term(self._clock() if since_s is None else since_s, until_s)

    def _spec(self, old: JsonObject) -> JsonObject:
        now = _timestamp()
        spec: JsonObject = {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": self.terms.lease_s,
            "renewTime": now,
        }
        if old.get("holderIdentity") == self._identity:
            return old | spec
        transitions = old.get("leaseTransitions")
        count = transitions + 1 if isinstance(transitions, int) else 0
        return old | spec | {"acquireTime": now, "leaseTransitions": count}

    def _note(self, lease: JsonObject) -> _Seen:
        """Remember when this state of *lease* was first seen."""
        self._last_owners = kept(lease["metadata"])
        spec = _spec_of(lease)
        holder = spec.get("holderIdentity")
        holder = holder if isinstance(holder, str) else ""
        fingerprint = json.dumps(spec, sort_keys=True)
        if self._seen is None or self._seen.fingerprint != fingerprint:
            told_s = spec.get("leaseDurationSeconds")
            lasts_s = told_s if isinstance(told_s, int) and told_s > 0 else self.terms.lease_s
            self._seen = _Seen(holder, fingerprint, self._clock() + lasts_s)
        if holder != self._identity:
            self._written = None
            self.resign()
        return self._seen

    def _may_take(self, seen: _Seen) -> bool:
        return seen.holder in {"", self._identity} or self._expired(seen)

    def _expired(self, seen: _Seen) -> bool:
        return self._clock() >= seen.expires_s


def _spec_of(lease: JsonObject) -> JsonObject:
    spec: Any = lease.get("spec")
    return spec if isinstance(spec, dict) else {}


def _timestamp() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
