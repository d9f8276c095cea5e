"""Who calls `/refit`: the API server is asked, by TokenReview, whose token it is.

A device plugin may move devices of pods of its own node alone. Tokens of pods say which node their
pod runs on since Kubernetes 1.32 (KEP-4193), and which pod they are for since long before; where
the node is missing the pod is looked up.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from extender.calls import Calls
from kube.errors import KubeError
from kube.objects import JsonObject

_EXTRA: Final = "authentication.kubernetes.io/"
_ACCOUNT: Final = "system:serviceaccount:"
_AT_ONCE: Final = 4
"""Reviews under way; strangers must not flood the API server through us."""
_TOKEN_MAX: Final = 16 * 1024


class CallerError(Exception):
    """The caller may not; *status* is HTTP's."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """A device plugin and where it runs."""

    username: str
    node: str


class Callers:
    """Tells them by their tokens; raises `CallerError`."""

    def __init__(
        self, calls: Calls, *, accounts: Sequence[str], audiences: Sequence[str] = ()
    ) -> None:
        self._calls = calls
        self._accounts, self._audiences = frozenset(accounts), tuple(audiences)
        self._turns = asyncio.Semaphore(_AT_ONCE)

    async def identify(self, authorization: str) -> Caller:
        """Return who sent this header."""
        scheme, _, token = authorization.partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token or len(token) > _TOKEN_MAX:
            raise CallerError(401, "a bearer token is needed")
        async with self._turns:
            try:
                status = await self._calls.review_token(token, self._audiences)
            except KubeError as error:
                raise CallerError(503, f"the token cannot be reviewed: {error}") from error
            return await self._known(status)

    async def _known(self, status: JsonObject) -> Caller:
        user = status.get("user")
        if status.get("authenticated") is not True or not isinstance(user, dict):
            raise CallerError(401, "the token is not valid")
        said = status.get("audiences") or ()
        if self._audiences and not set(self._audiences).intersection(said):
            raise CallerError(401, "the token is for others")
        username = user.get("username")
        if not isinstance(username, str) or username not in self._accounts:
            raise CallerError(403, f"{username} is no device plugin that may refit")
        return Caller(username=username, node=await self._node(username, user))

    async def _node(self, username: str, user: JsonObject) -> str:
        if node := _extra(user, "node-name"):
            return node
        name, uid = _extra(user, "pod-name"), _extra(user, "pod-uid")
        namespace = username.removeprefix(_ACCOUNT).partition(":")[0]
        if not name or not username.startswith(_ACCOUNT):
            raise CallerError(403, "the token does not say which pod or node it is for")
        try:
            pod = await self._calls.pod(namespace, name)
        except KubeError as error:
            raise CallerError(403, f"pod {namespace}/{name} of the token: {error}") from error
        if (uid and pod.uid != uid) or not pod.node:
            raise CallerError(403, f"pod {namespace}/{name} of the token is not what runs")
        return pod.node


def _extra(user: JsonObject, key: str) -> str:
    extra: Any = user.get("extra")
    values = extra.get(_EXTRA + key) if isinstance(extra, dict) else None
    found = values[0] if isinstance(values, list) and values else ""
    return found if isinstance(found, str) else ""
