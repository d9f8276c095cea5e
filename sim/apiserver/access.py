"""Who asks, and what was asked: bearer tokens and a bounded journal of requests.

A token may also stand at the beginning of the path, as `/as/<token>/api/v1/...`, because Go
clients such as kubectl send no credentials over plain HTTP (client-go: tools/clientcmd,
`ClientConfig`): a kubeconfig names that path as server and carries the token as well. There is no
authorization: a simulated user may do everything. Tests count writes per user in the journal
instead.
"""

from __future__ import annotations

import collections
import functools
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sim.apiserver.errors import StatusError

if TYPE_CHECKING:
    from collections.abc import Callable

_JOURNAL_LENGTH = 10_000
_PREFIX = "as"


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """One request as it was answered."""

    user: str
    verb: str
    """Kubernetes' word, such as `list` or `deletecollection`."""
    path: str
    status: int


def split_path(path: str) -> tuple[str, str]:
    """Return the token in *path*, empty when there is none, and the path without it."""
    match path.split("/", maxsplit=3):
        case ["", prefix, token, rest] if prefix == _PREFIX:
            return token, f"/{rest}"
        case _:
            return "", path


class Access:
    """The tokens and the journal of one server."""

    def __init__(self) -> None:
        self._tokens: dict[str, str] = {}
        self._users: dict[str, str] = {}
        self.records: collections.deque[RequestRecord] = collections.deque(maxlen=_JOURNAL_LENGTH)

    def token_for(self, user: str) -> str:
        """Return the token of *user*, made at the first call."""
        if user not in self._tokens:
            token = secrets.token_urlsafe(24)
            self._tokens[user] = token
            self._users[token] = user
        return self._tokens[user]

    def revoke(self, user: str) -> None:
        """Make the user's token invalid; the next `token_for` makes another."""
        self._users.pop(self._tokens.pop(user, ""), None)

    def path_for(self, user: str) -> str:
        """Return the path below which *user* needs no header."""
        return f"/{_PREFIX}/{self.token_for(user)}"

    def user_of(self, authorization: str, path_token: str) -> str:
        """Return who asks, the header counting before the path; 401 for nobody known."""
        scheme, _, token = authorization.partition(" ")
        if not authorization:
            scheme, token = "bearer", path_token
        user = self._users.get(token.strip()) if scheme.lower() == "bearer" else None
        if user is None:
            raise StatusError(401, "Unauthorized", "Unauthorized")
        return user

    def note(self, user: str, verb: str, path: str, status: int) -> None:
        """Add a request to the journal."""
        self.records.append(RequestRecord(user, verb, path, status))

    def noter(self, user: str, verb: str, path: str) -> Callable[[int], None]:
        """Return a function that notes this request with the status it is given."""
        return functools.partial(self.note, user, verb, path)
