"""Waits for what the container tells, or for what stands against it."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from cli.doctor.preflight.objects import told
from kube import paths
from kube.client import Client
from kube.errors import ApiError, ForbiddenError, NotFoundError
from kube.objects import JsonObject

_POLL_S: Final = 0.5
_SETTLING_S: Final = 20.0
"""How long a pod may be without a node or an image: both are tried again."""
_WRONG_IMAGE: Final = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull")
_WRONG_START: Final = ("CreateContainerError", "CreateContainerConfigError", "RunContainerError")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of the pod: what it *told*, or a *problem*."""

    told: dict[str, str] | None = None
    problem: str = ""
    is_pending: bool = False
    """It has no node: the scheduler's reasons can be looked at."""


class Watcher:
    """Looks at one pod until it is clear what came of it."""

    def __init__(
        self,
        client: Client,
        namespace: str,
        name: str,
        *,
        timeout_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client, self._namespace, self._name = client, namespace, name
        self._clock = clock
        self._end_s = clock() + timeout_s
        self._settled_s = clock() + min(_SETTLING_S, timeout_s)
        self._log_problem = ""

    def wait(self) -> Outcome:
        """Return what came of it; raises `KubeError` where the pod cannot be read."""
        while True:
            pod = json.loads(self._client.get(paths.pods(self._namespace, self._name)))
            outcome = self._look(pod)
            if outcome is not None:
                return outcome
            if self._clock() >= self._end_s:
                return self._too_late(pod)
            time.sleep(_POLL_S)

    def _look(self, pod: JsonObject) -> Outcome | None:
        status = pod.get("status") or {}
        state = _state(status)
        ended = state.get("terminated") or {}
        found = told(str(ended.get("message") or ""))
        if found is None and (ended or state.get("running")):
            found = told(self._log())
        if found is not None:
            return Outcome(told=found)
        if status.get("phase") in {"Failed", "Succeeded"}:
            return Outcome(problem=self._ended(status, ended))
        if self._clock() < self._settled_s:
            return None
        waiting = state.get("waiting") or {}
        if waiting.get("reason") in {*_WRONG_IMAGE, *_WRONG_START}:
            return Outcome(problem=f"{waiting['reason']}: {waiting.get('message') or ''}")
        if why := why_unscheduled(pod):
            return Outcome(problem=why, is_pending=True)
        return None

    def _log(self) -> str:
        try:
            path = paths.pods(self._namespace, self._name, "log")
            return self._client.get(path).decode(errors="replace")
        except (ForbiddenError, NotFoundError) as error:
            self._log_problem = str(error)
        except ApiError as error:
            # The container begins only, or its node cannot be reached from the API server.
            self._log_problem = str(error)
        return ""

    def _ended(self, status: JsonObject, ended: JsonObject) -> str:
        reason = ended.get("reason") or status.get("reason") or status.get("phase")
        said = ended.get("message") or status.get("message") or ""
        code = f" with status {ended['exitCode']}" if "exitCode" in ended else ""
        log = f"; its log: {self._log_problem}" if self._log_problem else ""
        return f"the container ended{code} and told nothing: {reason} {said}".strip() + log

    def _too_late(self, pod: JsonObject) -> Outcome:
        if why := why_unscheduled(pod):
            return Outcome(problem=why, is_pending=True)
        if not (pod.get("spec") or {}).get("nodeName"):
            name = (pod.get("spec") or {}).get("schedulerName")
            return Outcome(problem=f"scheduler {name} said nothing about it", is_pending=True)
        waiting = _state(pod.get("status") or {}).get("waiting") or {}
        if waiting:
            said = f"{waiting.get('reason')}: {waiting.get('message') or ''}".strip(": ")
            return Outcome(problem=f"its container does not start: {said}{self._event()}")
        log = f": {self._log_problem}" if self._log_problem else ""
        return Outcome(problem=f"its container runs and nothing can be read of it{log}")

    def _event(self) -> str:
        """Return the last warning about the pod: kubelet says there what stands in the way."""
        try:
            params = {"fieldSelector": f"involvedObject.name={self._name}"}
            found = json.loads(self._client.get(paths.events(self._namespace), params))["items"]
        except (ApiError, ValueError, LookupError):
            return ""
        warnings = [each for each in found if each.get("type") == "Warning"]
        return f"; {warnings[-1].get('message')}" if warnings else ""


def why_unscheduled(pod: JsonObject) -> str:
    """Return what the scheduler says against the pod, empty when it has said nothing."""
    for each in (pod.get("status") or {}).get("conditions") or ():
        if each.get("type") == "PodScheduled" and each.get("status") == "False":
            return str(each.get("message") or each.get("reason") or "")
    return ""


def _state(status: JsonObject) -> dict[str, Any]:
    """Return the state of the only container."""
    found = status.get("containerStatuses") or ()
    return dict((found[0].get("state") or {}) if found else {})
