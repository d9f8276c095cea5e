"""Who may write Nodes: the test of whether somebody is a scheduler or a node's own program.

HAMi's scheduler and device plugins have to patch Nodes for their protocol, and nobody else who
makes pods may; so no list of service accounts has to be kept here. The API server is asked
(SubjectAccessReview), the answer kept for a short while, and many questions about one user are one
request. Without an answer nobody may: what is guarded by this stays closed.
"""

import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import structlog

from kube.client import Client
from kube.errors import KubeError
from kube.objects import JsonObject
from kube.paths import resource
from webhook.review import UserInfo

ALLOWED_S: Final = 60.0
DENIED_S: Final = 10.0
_USERS_MAX: Final = 1024

_Key = tuple[object, ...]

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """An answer; *reason* says why not."""

    allowed: bool
    reason: str = ""
    is_certain: bool = True
    """False where the API server gave none."""


class NodeWriters:
    """Asks the API server who may patch Nodes; for one event loop."""

    def __init__(self, client: Client, *, now_s: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._now_s = now_s
        self._known: dict[_Key, tuple[float, Access]] = {}
        self._asking: dict[_Key, asyncio.Task[Access]] = {}

    async def may_write_nodes(self, user: UserInfo) -> Access:
        """Tell whether *user* may patch Nodes; never raises for want of an answer."""
        key = _key(user)
        until_s, access = self._known.get(key, (0.0, None))
        if access is not None and self._now_s() < until_s:
            return access
        asking = self._asking.get(key)
        if asking is None:
            asking = asyncio.create_task(self._ask(key, user))
            self._asking[key] = asking
        # Who asked first may be gone while others still wait for the same answer.
        return await asyncio.shield(asking)

    async def _ask(self, key: _Key, user: UserInfo) -> Access:
        try:
            access = await asyncio.to_thread(self._review, user)
        finally:
            del self._asking[key]
        if access.is_certain:
            self._known.pop(key, None)
            while len(self._known) >= _USERS_MAX:
                del self._known[next(iter(self._known))]
            kept_s = ALLOWED_S if access.allowed else DENIED_S
            self._known[key] = (self._now_s() + kept_s, access)
        return access

    def _review(self, user: UserInfo) -> Access:
        path = resource("authorization.k8s.io/v1", "subjectaccessreviews")
        try:
            status = json.loads(self._client.create(path, _question(user)))["status"]
            allowed = status["allowed"] is True and status.get("denied") is not True
            said = status.get("evaluationError") or status.get("reason")
        except (KubeError, ValueError, LookupError, TypeError, AttributeError) as error:
            log.warning("access not known", user=user.username, reason=str(error))
            message = f"the API server could not be asked who may patch nodes: {error}"
            return Access(allowed=False, reason=message, is_certain=False)
        if allowed:
            return Access(allowed=True)
        reason = f"`{user.username}` may not patch nodes"
        return Access(allowed=False, reason=f"{reason}: {said}" if said else reason)


def _key(user: UserInfo) -> _Key:
    return user.username, user.uid, frozenset(user.groups), frozenset(user.extra.items())


def _question(user: UserInfo) -> JsonObject:
    spec: JsonObject = {
        "user": user.username,
        "groups": list(user.groups),
        "uid": user.uid,
        "extra": {key: list(values) for key, values in user.extra.items()},
        "resourceAttributes": {"verb": "patch", "version": "v1", "resource": "nodes"},
    }
    return {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {key: value for key, value in spec.items() if value},
    }
