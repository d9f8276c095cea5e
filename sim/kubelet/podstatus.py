"""The status that kubelet gives a pod, made from its containers: pure data.

Conditions and fields of others (`PodScheduled`, `resourceClaimStatuses`) are left alone, since a
pod whose claim statuses got lost can never start.
"""

from collections.abc import Iterable, Sequence

from kube.objects import JsonObject
from sim.runtime.container import ContainerView, State

_OURS = ("PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready")


def waiting_status(
    container: JsonObject, why: tuple[str, str], *, restart_count: int
) -> JsonObject:
    """Return the status of a container that does not exist yet; *why* is reason and message."""
    reason, message = why
    waiting = {"reason": reason, **({"message": message} if message else {})}
    return {
        "name": container["name"],
        "image": container.get("image", ""),
        "imageID": "",
        "ready": False,
        "started": False,
        "restartCount": restart_count,
        "lastState": {},
        "state": {"waiting": waiting},
    }


def container_status(view: ContainerView, *, init: bool) -> JsonObject:
    """Return the status of a container that was made; one of *init* is ready when it is done."""
    running = view.state is State.RUNNING
    state: JsonObject = {"running": {"startedAt": view.started_at}}
    if not running:
        state = {
            "terminated": {
                "exitCode": view.exit_code or 0,
                "reason": "Error" if view.exit_code else "Completed",
                "startedAt": view.started_at,
                "finishedAt": view.finished_at,
                "containerID": view.id,
            }
        }
    return {
        "name": view.container,
        "image": view.image,
        "imageID": view.image,
        "containerID": view.id,
        "ready": running or (init and view.exit_code == 0),
        "started": running,
        "restartCount": view.restart_count,
        "lastState": {},
        "state": state,
    }


def conditions(
    current: Iterable[JsonObject], wanted: Iterable[tuple[str, bool]], at: str
) -> list[JsonObject]:
    """Return *current* conditions with *wanted* ones set; times move only with the status."""
    kept = {condition["type"]: condition for condition in current}
    for kind, true in wanted:
        status = "True" if true else "False"
        if kept.get(kind, {}).get("status") != status:
            kept[kind] = {"type": kind, "status": status, "lastTransitionTime": at}
    return list(kept.values())


def phase_of(apps: Sequence[ContainerView], expected: int) -> str:
    """Return the pod's phase from its app containers, *expected* in number."""
    if len(apps) < expected:
        return "Pending"
    if any(view.state is not State.EXITED for view in apps):
        return "Running"
    return "Failed" if any(view.exit_code for view in apps) else "Succeeded"


def pod_conditions(phase: str, *, sandbox: bool, initialized: bool) -> list[tuple[str, bool]]:
    """Return kubelet's conditions for a pod in *phase*."""
    running = phase == "Running"
    values = (sandbox, initialized, running, running)
    return list(zip(_OURS, values, strict=True))
