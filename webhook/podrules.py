"""What is asked of a pod as a whole before it may have devices, however it gets them.

A privileged container sees all devices of its node, so no limit holds beside it. A pod that names
its node passes by the scheduler, and with it by all that is known of free devices. A static pod's
mirror names its node too, but it only reports what the kubelet runs already.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from gpu.refusal import Refusal
from hami.containers import JsonObject, all_containers
from hami.wording import shown

DEFAULT_SCHEDULER: Final = "default-scheduler"
MIRROR: Final = "kubernetes.io/config.mirror"


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerDecision:
    """Whether a pod is prepared for HAMi's scheduler; *warning* says why it is not."""

    take: bool
    warning: Refusal | None = None


def scheduler_decision(
    pod: JsonObject, *, scheduler_name: str, force_overwrite: bool = True
) -> SchedulerDecision:
    """Return whether the scheduler of *pod* may be, or already is, *scheduler_name*.

    The API server writes `default-scheduler` into pods that name none, before it asks webhooks;
    without *force_overwrite* that counts as the user's choice.
    """
    chosen = _mapping(pod.get("spec")).get("schedulerName")
    free = not chosen or (chosen == DEFAULT_SCHEDULER and force_overwrite)
    if free or chosen == scheduler_name:
        return SchedulerDecision(take=True)
    warning = Refusal(
        code="OtherScheduler",
        field="spec.schedulerName",
        value=shown(chosen),
        limit=f"GPU limits will not be applied by scheduler {shown(chosen)}",
        remedy=f"use {scheduler_name} or leave it out" if scheduler_name else "",
    )
    return SchedulerDecision(take=False, warning=warning)


def is_mirror(pod: JsonObject) -> bool:
    """Tell whether *pod* mirrors a static pod."""
    return MIRROR in _mapping(_mapping(pod.get("metadata")).get("annotations"))


def without_containers(pod: JsonObject) -> tuple[Refusal, ...]:
    """Return why a pod without app containers is none."""
    if _mapping(pod.get("spec")).get("containers"):
        return ()
    return (
        Refusal(
            code="NoContainers", field="spec.containers", value="", limit="pod has no containers"
        ),
    )


def with_devices(pod: JsonObject) -> tuple[Refusal, ...]:
    """Return all reasons why *pod*, which asks for devices and is no mirror, cannot have any."""
    return (*privileged(pod), *node_assigned(pod))


def privileged(pod: JsonObject) -> tuple[Refusal, ...]:
    """Return a reason for each privileged container, whether it asks for devices or not."""
    return tuple(
        Refusal(
            code="PrivilegedContainer",
            field=f"{container.path}.securityContext.privileged",
            value="true",
            limit=f"container {shown(container.name)} is privileged",
            remedy="run it in a pod without GPUs",
        )
        for container in all_containers(pod)
        if _mapping(container.raw.get("securityContext")).get("privileged") is True
    )


def node_assigned(pod: JsonObject) -> tuple[Refusal, ...]:
    """Return a reason if *pod* names its node."""
    node = _mapping(pod.get("spec")).get("nodeName")
    if not node:
        return ()
    return (
        Refusal(
            code="NodeAssigned",
            field="spec.nodeName",
            value=shown(node),
            limit="spec.nodeName bypasses GPU scheduling",
            remedy=f"use nodeSelector kubernetes.io/hostname: {shown(node)}",
        ),
    )


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
