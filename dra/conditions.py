"""Says on a claim that a device it holds is ill, and that it is well again.

A pod's owner looks at the claim, not at the node's slices. Nothing is written on a claim whose
devices are well, so that a prepare costs one request and a node at rest none; the exception are
claims that an earlier process prepared, each of which is read once, because what that process
wrote may no longer be true.

Since Kubernetes 1.36 the right to update the status of a claim is not enough: the verb
`associated-node:update` on `resourceclaims/driver` is needed too, and it covers only claims that
are bound to the caller's node alone. It is missed with 422, not 403. What changed is told by the
bytes of the JSON that others left in the claim (pkg/registry/resource: `DeepEqual` over
`RawExtension`), and in an allocation by those of up to 1.35 as well: blanks between the words, or
numbers such as `1e6`, are not what comes back from a client that has read them. So a refusal is
about that claim: it is given up and said once for all. A server whose gate
`DRAResourceClaimDeviceStatus` is off takes the field and drops it, and then all are given up.
"""

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import structlog

from cdi.faults import FaultPoint, reach
from dra.claimstatus import WELL, Verdict, ill, is_kept, with_conditions
from dra.devicehealth import DeviceHealth
from dra.record import PreparedClaim
from gpu.names import DRIVER
from kube import paths
from kube.client import Client
from kube.errors import (
    ConflictError,
    ConnectionFailedError,
    ForbiddenError,
    InvalidError,
    KubeError,
    NotFoundError,
    TooManyRequestsError,
    UnauthorizedError,
)
from kube.objects import JsonObject

PACE_S: Final = 0.25

_TRIES: Final = 3
# The next claim would fare no better.
_NO_SERVER: Final = (ConnectionFailedError, TooManyRequestsError, UnauthorizedError)
_NO_RIGHT: Final = (
    "allow the node agent `update` on `resourceclaims/status` and `associated-node:update` on "
    "`resourceclaims/driver`, as the chart does"
)
_NOT_THE_SAME: Final = (
    "none is needed: the claim holds JSON of others that this client cannot send back to the byte"
)
_DROPPED: Final = "switch on the feature gate DRAResourceClaimDeviceStatus of the API server"

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Said:
    """What is known of one claim's status."""

    allocation: str
    unread: bool = False
    """An earlier process may have written what is not in *verdicts*."""
    given_up: bool = False
    verdicts: dict[str, Verdict] = field(default_factory=dict)

    def is_done(self, wanted: Mapping[str, Verdict]) -> bool:
        """Tell whether the claim says *wanted*, need not say it, or never will."""
        before = None if self.unread else WELL
        return self.given_up or all(
            self.verdicts.get(name, before) == each for name, each in wanted.items()
        )

    def may_be_wrong(self) -> bool:
        """Tell whether the claim may say that something is ill."""
        return self.unread or not all(each.ready for each in self.verdicts.values())


class Conditions:
    """Looks at every prepared claim; one thread calls `look`."""

    def __init__(
        self,
        *,
        client: Client,
        pool: str,
        claims: Callable[[], Mapping[str, PreparedClaim]],
        health: Callable[[], Sequence[DeviceHealth]],
        stopping: threading.Event,
        pace_s: float = PACE_S,
    ) -> None:
        """Prepare; a device that *health* does not name is neither ill nor well.

        *stopping* ends a look early; between two claims it waits for *pace_s*.
        """
        self._client = client
        self._pool = pool
        self._claims = claims
        self._health = health
        self._stopping = stopping
        self._pace_s = pace_s
        self._said: dict[str, _Said] = {}
        self._unread: set[str] = set()
        self._remedies: set[str] = set()
        self._is_dropped = False

    def adopt(self) -> None:
        """Have the claims that are prepared now be read once, for another process had them.

        Call it before kubelet is served, and after the state was rebuilt from the API.
        """
        self._unread.update(self._claims())

    def look(self) -> None:
        """Have each claim say what is so now; those that hold something ill come first."""
        tried: set[str] = set()
        while not self._is_dropped and (due := self._next(tried)) is not None:
            if self._stopping.wait(self._pace_s if tried else 0):
                return
            claim, wanted = due
            tried.add(claim.uid)
            if not self._tell(claim, wanted):
                return

    def _next(self, tried: set[str]) -> tuple[PreparedClaim, dict[str, Verdict]] | None:
        """Return a claim that does not say what it should, and what that is."""
        verdicts = {each.name: _verdict(each) for each in self._health()}
        claims = self._claims()
        self._forget(claims)
        found = None
        for uid, claim in claims.items():
            wanted = {
                each.device: verdicts[each.device]
                for each in claim.devices
                if each.device in verdicts
            }
            if uid in tried or self._known(claim).is_done(wanted):
                continue
            found = (claim, wanted)
            if not all(each.ready for each in wanted.values()):
                break
        return found

    def _known(self, claim: PreparedClaim) -> _Said:
        said = self._said.get(claim.uid)
        # With another allocation the server has dropped what was said of the one before.
        if said is None or said.allocation != claim.allocation:
            said = self._said[claim.uid] = _Said(claim.allocation)
        if claim.uid in self._unread:
            said.unread = True
            self._unread.discard(claim.uid)
        return said

    def _forget(self, claims: Mapping[str, PreparedClaim]) -> None:
        for uid in self._said.keys() - claims.keys():
            if self._said.pop(uid).may_be_wrong():
                # Another pod may have it prepared again while that is still written there.
                self._unread.add(uid)

    def _tell(self, claim: PreparedClaim, wanted: dict[str, Verdict]) -> bool:
        """Write *wanted* if need be; tell whether it makes sense to go on with other claims."""
        known = self._known(claim)
        try:
            self._write(claim, wanted)
        except ConflictError:
            # Somebody else writes it just as often; the next look comes.
            return True
        except (ForbiddenError, InvalidError) as error:
            known.given_up = True
            self._warn(claim, error)
            return True
        except (KubeError, ValueError, RecursionError) as error:
            name = f"{claim.namespace}/{claim.name}"
            log.warning("claim condition not written", claim=name, reason=str(error))
            return not isinstance(error, _NO_SERVER)
        known.verdicts.update(wanted)
        if wanted.keys() >= {each.device for each in claim.devices}:
            known.unread = False
        return True

    def _warn(self, claim: PreparedClaim, error: ForbiddenError | InvalidError) -> None:
        remedy = _remedy(error)
        if remedy not in self._remedies:
            self._remedies.add(remedy)
            name = f"{claim.namespace}/{claim.name}"
            log.warning("claim condition refused", claim=name, reason=str(error), remedy=remedy)

    def _write(self, claim: PreparedClaim, wanted: dict[str, Verdict]) -> None:
        """Read the claim and write what it lacks; raise `ConflictError` after a few tries."""
        for attempt in range(1, _TRIES + 1):
            try:
                now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
                found = self._read(claim)
                changed = with_conditions(found, pool=self._pool, verdicts=wanted, now=now)
                if changed is not None:
                    self._replace(claim, changed, wanted)
            except ConflictError:
                if attempt == _TRIES:
                    raise
            except NotFoundError:
                return
            else:
                return

    def _read(self, claim: PreparedClaim) -> JsonObject:
        """Return the claim, nothing when another has its name."""
        path = paths.resource_claims(claim.namespace, claim.name)
        found = json.loads(self._client.get(path))
        if not isinstance(found, dict) or not isinstance(found.get("metadata"), dict):
            message = "the answer is no object"
            raise ValueError(message)  # noqa: TRY004  # it came from outside
        return found if found["metadata"].get("uid") == claim.uid else {}

    def _replace(
        self, claim: PreparedClaim, changed: JsonObject, wanted: dict[str, Verdict]
    ) -> None:
        path = paths.resource_claims(claim.namespace, claim.name, "status")
        answer = json.loads(self._client.replace(path, changed))
        reach(FaultPoint.CLAIM_STATUS_WRITTEN)
        name = f"{claim.namespace}/{claim.name}"
        if not isinstance(answer, dict) or not is_kept(answer, pool=self._pool):
            self._is_dropped = True
            log.warning("claim conditions dropped by the server", claim=name, remedy=_DROPPED)
            return
        said = {device: each.reason for device, each in wanted.items()}
        log.info("claim condition written", claim=name, claim_uid=claim.uid, said=said)


def _verdict(device: DeviceHealth) -> Verdict:
    return WELL if device.healthy else ill(device.code, device.message)


def _remedy(error: ForbiddenError | InvalidError) -> str:
    # The server names the driver whose entries may not be changed.
    is_right = isinstance(error, ForbiddenError) or f'"{DRIVER}" is forbidden' in error.message
    return _NO_RIGHT if is_right else _NOT_THE_SAME
