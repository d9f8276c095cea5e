"""A client whose callers speak `resource.k8s.io/v1` with servers of any version.

Kubernetes serves v1 from 1.34 on and nothing of the group by default before; 1.33 has v1beta2 and
v1beta1 and 1.32 v1beta1, where an administrator has switched them on. Which of them is there is
asked once, at the first request that needs it. Where it is v1, requests and answers go through as
they are. An older version is asked about again after some minutes, because a server may have got v1
beside it; and any version once its paths are gone, because the control plane was changed under us.

A server answers 404 for an object that is not there and for a path that it does not serve. The two
must not be confused, for from the first one follows that a claim is gone: so the second one becomes
`NotServedError` here.
"""

import json
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, TypeVar

import structlog

from kube.client import Client
from kube.config import ClientConfig
from kube.draconversion import GROUP, V1, V1BETA1, V1BETA2, event_to_v1, to_v1, to_version
from kube.errors import (
    ApiError,
    ConnectionFailedError,
    ForbiddenError,
    KubeError,
    NotFoundError,
    NotServedError,
    UntranslatableError,
)
from kube.objects import JsonObject
from kube.watch import Watch

log = structlog.get_logger(__name__)

ApiVersionChoice = Literal["auto", "v1", "v1beta2", "v1beta1"]

_KNOWN: Final = (V1, V1BETA2, V1BETA1)
_GROUP_PATH: Final = f"/apis/{GROUP}"
_PREFIX: Final = f"{_GROUP_PATH}/{V1}/"
_PAUSE_S: Final = 5.0
"""Between two questions that failing requests lead to."""
_OLDER_FOR_S: Final = 600.0
"""How long an answer that names an older version than v1 is good for."""
_NONE_SERVED: Final = (
    f"{GROUP} is not served by this API server; enable DynamicResourceAllocation and "
    "--runtime-config or use Kubernetes 1.34 or newer"
)

Answer = TypeVar("Answer")


class ServedVersion:
    """Which version to speak; asks the server as seldom as it can, from whichever thread."""

    def __init__(
        self,
        ask: Callable[[], bytes],
        choice: ApiVersionChoice = "auto",
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare; *ask* returns the group's document, *choice* names a version to speak always."""
        self._ask, self._clock = ask, clock
        self._chosen = None if choice == "auto" else str(choice)
        self._lock = threading.Lock()
        self._version = self._chosen
        self._asked_s = 0.0
        self._problem: str | None = None

    def current(self) -> str:
        """Return the version to speak; raises `NotServedError` when there is none."""
        version = self._version
        if version is not None and not self._is_dated():
            return version
        with self._lock:
            if self._version is None:
                self._discover()
            elif self._is_dated():
                self._ask_about_newer(self._version)
            return self._required()

    def instead_of(self, refused: str) -> str:
        """Return what to speak when the server has just not served the version *refused*.

        Raises `NotServedError` when there is nothing else, or when the server was asked just now.
        """
        with self._lock:
            if self._version == refused and self._may_ask():
                self._discover()
            if self._version == refused:
                raise NotServedError(self._note_problem(refused))
            return self._required()

    def note_served(self) -> None:
        """Note that a request was understood."""
        if self._problem is not None:
            with self._lock:
                self._problem = None
            log.info("API served again", group=GROUP)

    @property
    def problem(self) -> str | None:
        """Why nothing can be said to the server; `None` as far as is known."""
        return self._problem

    def _required(self) -> str:
        if self._version is None:
            raise NotServedError(self._note_problem(None))
        return self._version

    def _is_dated(self) -> bool:
        older = self._chosen is None and self._version != V1
        return older and self._clock() - self._asked_s >= _OLDER_FOR_S

    def _may_ask(self) -> bool:
        return self._chosen is None and self._clock() - self._asked_s >= _PAUSE_S

    def _ask_about_newer(self, present: str) -> None:
        try:
            self._discover()
        except KubeError as error:
            # The request itself will show whether the server answers.
            log.debug("API versions not asked", error=str(error))
        if self._version is None:
            self._version = present

    def _discover(self) -> None:
        before = self._version
        self._asked_s = self._clock()
        self._version = self._best()
        if self._version not in (None, before):
            log.info("API version chosen", group=GROUP, version=self._version, before=before)

    def _best(self) -> str | None:
        try:
            document = json.loads(self._ask())
            served = {each["version"] for each in document["versions"]}
        except NotFoundError:
            return None
        except ForbiddenError as error:
            log.warning("API versions not known, v1 is assumed", group=GROUP, error=str(error))
            return V1
        except (ValueError, LookupError, TypeError) as error:
            message = f"GET {_GROUP_PATH}: the answer is no list of versions"
            raise ConnectionFailedError(message) from error
        return next((each for each in _KNOWN if each in served), None)

    def _note_problem(self, refused: str | None) -> str:
        problem = _NONE_SERVED
        if refused is not None:
            problem = f"{GROUP}/{refused} is not served by this API server"
            if self._chosen is not None:
                problem += ", although it was chosen by a setting"
        if problem != self._problem:
            log.warning("API not served", reason=problem)
        self._problem = problem
        return problem


class VersionedClient(Client):
    """A `Client` that is spoken to in `v1`; only requests of the DRA group are translated."""

    def __init__(
        self,
        config: ClientConfig,
        *,
        user_agent: str,
        timeout_s: float = 10.0,
        api_version: ApiVersionChoice = "auto",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare without connecting; *api_version* is what to speak without a question."""
        super().__init__(config, user_agent=user_agent, timeout_s=timeout_s)
        self._served = ServedVersion(lambda: self.get(_GROUP_PATH), api_version, clock=clock)

    def dra_problem(self) -> str | None:
        """Return why claims and slices cannot be read or written, `None` when they can."""
        return self._served.problem

    def watch(self, path: str, params: Mapping[str, str], *, timeout_s: float) -> Watch:
        """Open a watch that fails after *timeout_s* of silence; `watch=true` is added."""
        opened = super().watch
        if not path.startswith(_PREFIX):
            return opened(path, params, timeout_s=timeout_s)
        plural = _plural(path)

        def open_(version: str) -> Watch:
            watch = opened(_at(path, version), params, timeout_s=timeout_s)
            if version == V1:
                return watch
            return watch.translated(lambda line: _translated(line, event_to_v1, plural, version))

        return self._spoken(open_)

    def _exchange(
        self,
        method: str,
        path: str,
        params: Mapping[str, str] | None,
        body: JsonObject | list[Any] | None = None,
        **options: Any,
    ) -> bytes:
        exchange = super()._exchange
        if not path.startswith(_PREFIX):
            return exchange(method, path, params, body, **options)
        plural = _plural(path)

        def ask(version: str) -> bytes:
            if version == V1:
                return exchange(method, path, params, body, **options)
            said = _said(method, body, plural, version)
            answer = exchange(method, _at(path, version), params, said, **options)
            return _translated(answer, to_v1, plural, version)

        return self._spoken(ask)

    def _spoken(self, request: Callable[[str], Answer]) -> Answer:
        """Do *request* in the version that is served, and once more where that has changed."""
        version = self._served.current()
        try:
            return self._understood(request, version)
        except NotServedError:
            return self._understood(request, self._served.instead_of(version))

    def _understood(self, request: Callable[[str], Answer], version: str) -> Answer:
        try:
            answer = request(version)
        except ApiError as error:
            if isinstance(error, NotFoundError) and error.is_about_path:
                message = f"{GROUP}/{version} is not served by this API server"
                raise NotServedError(message) from error
            self._served.note_served()
            raise
        self._served.note_served()
        return answer


def _at(path: str, version: str) -> str:
    return f"{_GROUP_PATH}/{version}/{path.removeprefix(_PREFIX)}"


def _plural(path: str) -> str:
    first, *rest = path.removeprefix(_PREFIX).split("/")
    return rest[1] if first == "namespaces" and len(rest) > 1 else first


def _said(
    method: str, body: JsonObject | list[Any] | None, plural: str, version: str
) -> JsonObject | list[Any] | None:
    if method == "PATCH" and version == V1BETA1:
        # A list's place in the one form is not its place in the other.
        message = f"a patch of {plural} cannot be said in {GROUP}/{version}: replace the object"
        raise UntranslatableError(message)
    return to_version(body, plural, version) if isinstance(body, dict) else body


def _translated(
    text: bytes,
    translate: Callable[[JsonObject, str, str], JsonObject],
    plural: str,
    version: str,
) -> bytes:
    try:
        item = json.loads(text)
    except ValueError:
        # Whoever wanted to read it says so.
        return text
    if not isinstance(item, dict):
        return text
    return json.dumps(translate(item, plural, version), separators=(",", ":")).encode()
