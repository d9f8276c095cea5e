"""Explain a pod about which HAMi's annotation protocol decides: ask the extender's own fit.

A pod that a webhook has translated has claims and is explained by these. Nothing is reserved, so
what fits here may be taken by another pod meanwhile.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from cli.explain.errors import InputError
from cli.explain.legacycase import LegacyCase, case_of, cluster_of
from cli.explain.legacychanges import smallest_changes
from cli.explain.legacyreasons import node_reason, quota_reasons
from extender.model import Placement
from extender.state.cluster import Cluster
from gpu.refusal import Refusal
from hami import annotations, keys, preference_reading, resources
from hami.backends import backends
from hami.containers import all_containers
from hami.deviceconfig import DeviceConfig
from hami.devices import Slots
from hami.reading import Undecodable
from hami.requests import NVIDIA, Absent, ContainerRequest, DeviceRequest, Invalid, Valid
from kube.objects import JsonObject
from sim.explain.model import Asked, Change, Explanation, Given, NodeReason, Subject, Verdict
from sim.explain.nodereasons import CANNOT_ALLOCATE
from sim.explain.rules import NEWEST
from sim.explain.snapshot import Snapshot
from sim.explain.waiting import gated
from sim.scheduler.nodefilter import finished

_DEFAULT_SCHEDULER: Final = "default-scheduler"
_SPOILED_MAX: Final = 5
_MINOR: Final = re.compile(r"v?(\d+\.\d+)")
_NEVER: Final = ("CardNotHealth", "CardCordoned", "CardTypeMismatch", "CardUuidMismatch")
"""Tokens of devices that are refused whatever is free on them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What an administrator has told the extender."""

    config: DeviceConfig
    scheduler_name: str
    """The scheduler that calls it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Material:
    """What there is to look at."""

    snapshot: Snapshot
    quotas: tuple[JsonObject, ...]
    version: str
    """The server's, such as `v1.33.1`; empty where it is not known."""
    now: datetime
    """When it was so: plugins that have been silent for long by then are dead."""


def explain_legacy(material: Material, pod: JsonObject, terms: Terms) -> Explanation | None:
    """Explain *pod*, or return nothing where kube-scheduler alone decides; raises `InputError`."""
    read = resources.read(pod, terms.config)
    if isinstance(read, Absent):
        return None
    cluster = cluster_of(material.snapshot, material.quotas, terms.config, material.now)
    if _scheduler(pod) != terms.scheduler_name and not any(_registers(cluster)):
        _refuse_unexplained(pod, read, terms)
        return None
    return _explained(material, pod, read, cluster, terms)


def _explained(
    material: Material, pod: JsonObject, read: Valid | Invalid, cluster: Cluster, terms: Terms
) -> Explanation:
    metadata = pod["metadata"]
    said = Explanation(
        subject=Subject(kind="Pod", namespace=metadata["namespace"], name=metadata["name"]),
        verdict=Verdict.PENDING,
        message="",
        release=_minor(material.version),
        asked=tuple(_asked(read.requests)),
        notes=(*material.snapshot.spoiled[:_SPOILED_MAX], *_notes(pod)),
    )
    if pod["spec"].get("nodeName") or finished(pod):
        return _placed(said, pod, terms.config)
    said = replace(
        said,
        reasons=(*gated(pod), *_other_scheduler(pod, terms)),
        nodes_total=len(material.snapshot.nodes),
        scheduler_says=_condition(pod),
    )
    if isinstance(read, Invalid):
        return replace(
            said,
            message=f"{said.subject} is pending: what it asks for is refused",
            reasons=(*read.reasons, *said.reasons),
        )
    case = case_of(pod, read, terms.config, cluster, material.snapshot)
    return _judged(said, case, terms)


def _judged(said: Explanation, case: LegacyCase, terms: Terms) -> Explanation:
    nodes = {name: node_reason(case, name) for name in case.nodes}
    refused = [reason for reason in nodes.values() if reason is not None]
    fitting = [found for name, why in nodes.items() if why is None and (found := case.fit(name))]
    best = max(
        (each for each in fitting if isinstance(each, Placement)),
        key=lambda each: each.score,
        default=None,
    )
    if best is None:
        nearest = [each.node for each in sorted(refused, key=_nearness, reverse=True)]
        return replace(
            said,
            message=f"{said.subject} is pending: no node can serve it",
            reasons=(*said.reasons, *quota_reasons(case, refused)),
            nodes=tuple(refused),
            changes=smallest_changes(case, nearest),
        )
    given = tuple(_given(best.slots, best.node, case.pod))
    if not said.reasons:
        return replace(
            said,
            verdict=Verdict.FITS,
            message=f"{said.subject} fits on node {best.node}",
            node=best.node,
            given=given,
        )
    others = any(reason.code == "OtherScheduler" for reason in said.reasons)
    return replace(
        said,
        message=f"{said.subject} is pending, and would fit on node {best.node}",
        given=given,
        node="" if others else best.node,
        changes=(_named(case.pod, terms, best.node),) if others else (),
    )


def _nearness(reason: NodeReason) -> tuple[bool, int, int]:
    """Tell how near a node is: by the devices that lack amounts only, then by all it has."""
    near = sum(each.refusal.code not in _NEVER for each in reason.devices)
    return reason.refusal.code == CANNOT_ALLOCATE, near, len(reason.devices)


def _registers(cluster: Cluster) -> Iterator[bool]:
    for place in cluster.places:
        yield any(place.devices.values()) or bool(place.problem)


def _refuse_unexplained(pod: JsonObject, read: Valid | Invalid, terms: Terms) -> None:
    """Refuse what a device plugin decides about; other vendors' resources are counted as any."""
    devices = [device for request in read.requests for device in request.devices]
    if isinstance(read, Invalid) or any(device.word == NVIDIA for device in devices):
        message = (
            f"pod {pod['metadata']['namespace']}/{pod['metadata']['name']} has no claim, no node "
            f"registers devices for HAMi's protocol, and its scheduler is {_scheduler(pod)}, not "
            f"{terms.scheduler_name}: a device plugin decides about it, which is not explained"
        )
        raise InputError(message)


def _other_scheduler(pod: JsonObject, terms: Terms) -> Iterator[Refusal]:
    if _scheduler(pod) != terms.scheduler_name:
        yield Refusal(
            code="OtherScheduler",
            field="spec.schedulerName",
            value=_scheduler(pod),
            limit=f"devices are decided about by {terms.scheduler_name}",
            remedy="create the pod again while the webhook runs, or name that scheduler",
        )


def _named(pod: JsonObject, terms: Terms, node: str) -> Change:
    return Change(
        code="NameScheduler",
        field="spec.schedulerName",
        before=_scheduler(pod),
        after=terms.scheduler_name,
        sentence=f"the pod is created for scheduler {terms.scheduler_name}",
        node=node,
    )


def _scheduler(pod: JsonObject) -> str:
    return str(pod["spec"].get("schedulerName") or _DEFAULT_SCHEDULER)


def _placed(said: Explanation, pod: JsonObject, config: DeviceConfig) -> Explanation:
    node, phase = pod["spec"].get("nodeName") or "", (pod.get("status") or {}).get("phase", "")
    slots, wrong = _written(pod, config)
    return replace(
        said,
        verdict=Verdict.FINISHED if finished(pod) else Verdict.SCHEDULED,
        message=f"{said.subject} has its place"
        + (f" on node {node}" if node else "")
        + f", phase {phase or 'unknown'}",
        node=node,
        given=tuple(_given(slots, node, pod)),
        notes=(*said.notes, *wrong),
    )


def _written(pod: JsonObject, config: DeviceConfig) -> tuple[dict[str, Slots], list[str]]:
    """Return what the annotations of *pod* give it, and what of them cannot be read."""
    said = preference_reading.annotations_of(pod)
    found: dict[str, Slots] = {}
    wrong = []
    for backend in backends(config):
        slots = annotations.decode_pod_devices(str(said.get(backend.support_key, "")), None)
        if isinstance(slots, Undecodable):
            wrong.append(f"annotation {backend.support_key} cannot be read: {slots}")
        else:
            found[backend.word] = slots
    return found, wrong


def _notes(pod: JsonObject) -> Iterator[str]:
    said = preference_reading.annotations_of(pod)
    node, bound = said.get(keys.NODE), pod["spec"].get("nodeName")
    phase = said.get(keys.BIND_PHASE)
    if node and not bound:
        yield f"a binding to node {node} was begun: {keys.BIND_PHASE} is {phase or 'not set'}"
    elif bound and node != bound:
        yield f"its devices are said to be on {node or 'no node'}: another scheduler has bound it"
    elif bound and phase not in (None, "success"):
        yield f"its device plugin has not handed the devices out: {keys.BIND_PHASE} is {phase}"


def _asked(requests: Iterable[ContainerRequest]) -> Iterator[Asked]:
    for container in requests:
        for request in container.devices:
            yield Asked(
                claim="",
                request=container.container.name,
                device_class=request.word,
                count=request.count,
                capacity=dict(_capacity(request)),
            )


def _capacity(request: DeviceRequest) -> Iterator[tuple[str, str]]:
    if request.memory_mib:
        yield "memory", f"{request.memory_mib} MiB"
    elif request.memory_percent:
        yield "memory", f"{request.memory_percent} %"
    if request.cores:
        yield "cores", str(request.cores)


def _given(slots: Mapping[str, Slots], node: str, pod: JsonObject) -> Iterator[Given]:
    names = [each.name for each in all_containers(pod)]
    for word, places in slots.items():
        for index, devices in enumerate(places):
            for device in devices:
                consumed = {"memory": f"{device.memory_mib} MiB", "cores": str(device.cores)}
                yield Given(
                    claim="",
                    request=names[index] if index < len(names) else f"#{index}",
                    driver=word,
                    pool=node,
                    device=device.uuid,
                    consumed=consumed,
                )


def _minor(version: str) -> str:
    found = _MINOR.match(version)
    return found[1] if found else NEWEST


def _condition(pod: JsonObject) -> str:
    for condition in (pod.get("status") or {}).get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return str(condition.get("message", ""))
    return ""
