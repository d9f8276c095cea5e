"""What a pod costs its namespace on HAMi's path, in the units of HAMi's quota keys.

Sizes are for each device and count as often as there are devices, which Kubernetes' own quota
cannot do. Ordinary init containers run one after the other beside the sidecars declared before
them and end, so a pod costs the larger of that peak and of what stays: sidecars and apps. HAMi
itself takes sidecars for ordinary init containers (HAMi v2.10: `pkg/scheduler/webhook.go`,
`pkg/device/initContainer.go`).

A percentage has no size until a device is chosen. It counts on the largest GPU there is, and what
HAMi's scheduler chose once it has. Where no size is known it counts nothing at admission, as in
HAMi, whose scheduler asks the quota again with the true size.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from hami.containers import ContainerKind, JsonObject
from hami.deviceconfig import NvidiaConfig
from hami.poddevices import decode_pod_devices
from hami.reading import Undecodable
from hami.requests import NVIDIA, ContainerRequest, DeviceRequest

ALLOCATED: Final = "hami.io/vgpu-devices-allocated"
"""The annotation in which HAMi's device plugin tells what an NVIDIA pod got."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaNames:
    """The resources of one vendor that a quota may bound; an empty name is none."""

    word: str
    """HAMi's common word."""
    memory: str = ""
    cores: str = ""
    count: str = ""
    """Only NVIDIA's is kept; HAMi keeps none."""
    memory_factor: int = 1
    """MiB in one unit of a bound on *memory*."""

    @property
    def all(self) -> tuple[str, ...]:
        """The names that there are."""
        return tuple(filter(None, (self.memory, self.cores, self.count)))


class VendorNames(Protocol):
    """What is asked of a vendor other than NVIDIA."""

    @property
    def word(self) -> str: ...  # noqa: D102

    @property
    def quota_memory_name(self) -> str: ...  # noqa: D102

    @property
    def quota_core_name(self) -> str: ...  # noqa: D102

    @property
    def quota_memory_factor(self) -> int: ...  # noqa: D102


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Amounts by resource name: MiB, percent of one GPU's cores, devices."""

    amounts: Mapping[str, int] = field(default_factory=dict)
    """Above zero: what is not asked is not here."""
    unsized: frozenset[str] = frozenset()
    """Asked in a size that HAMi's scheduler will know, counted as nothing."""
    unknown: Mapping[str, str] = field(default_factory=dict)
    """Asked in a size that nobody can tell, and why."""

    def __add__(self, other: "Cost") -> "Cost":
        return self._with(other, lambda one, two: one + two)

    def __or__(self, other: "Cost") -> "Cost":
        """Return the larger of both, resource by resource."""
        return self._with(other, max)

    def __bool__(self) -> bool:
        return bool(self.amounts or self.unsized or self.unknown)

    def asks(self, resource: str) -> bool:
        """Tell whether it is anything of *resource*."""
        return resource in self.amounts or resource in self.unsized or resource in self.unknown

    def _with(self, other: "Cost", merge: Any) -> "Cost":
        if not other:
            return self
        if not self:
            return other
        names = self.amounts.keys() | other.amounts.keys()
        return Cost(
            amounts={
                name: merge(self.amounts.get(name, 0), other.amounts.get(name, 0)) for name in names
            },
            unsized=self.unsized | other.unsized,
            unknown={**other.unknown, **self.unknown},
        )


NOTHING: Final = Cost()


def total(costs: Iterable[Cost]) -> Cost:
    """Return the sum."""
    amounts: dict[str, int] = {}
    unsized: set[str] = set()
    unknown: dict[str, str] = {}
    for cost in costs:
        for name, amount in cost.amounts.items():
            amounts[name] = amounts.get(name, 0) + amount
        unsized |= cost.unsized
        unknown |= cost.unknown
    return Cost(amounts=amounts, unsized=frozenset(unsized), unknown=unknown)


def quota_names(nvidia: NvidiaConfig, vendors: Iterable[VendorNames]) -> tuple[QuotaNames, ...]:
    """Return what can be bounded; NVIDIA's names come first."""
    found = [
        QuotaNames(
            word=NVIDIA,
            memory=nvidia.resource_memory_name,
            cores=nvidia.resource_core_name,
            count=nvidia.resource_count_name,
            memory_factor=max(1, nvidia.memory_factor),
        )
    ]
    found += [
        QuotaNames(
            word=vendor.word,
            memory=vendor.quota_memory_name,
            cores=vendor.quota_core_name,
            memory_factor=max(1, vendor.quota_memory_factor),
        )
        for vendor in vendors
    ]
    return tuple(found)


def cost_of(
    requests: Iterable[ContainerRequest],
    names: Sequence[QuotaNames],
    *,
    largest_mib: int | None = None,
    ended: frozenset[str] = frozenset(),
    allocated_mib: Sequence[int] = (),
) -> Cost:
    """Return what a pod costs whose containers ask *requests*.

    *largest_mib* is the memory of the largest NVIDIA GPU; init containers in *ended* cost nothing
    any more; *allocated_mib* is what each container was given, in the order of *requests*.
    """
    peak = sidecars = apps = NOTHING
    for index, request in enumerate(requests):
        given_mib = allocated_mib[index] if index < len(allocated_mib) else None
        cost = _of_container(request, names, largest_mib, given_mib)
        kind = request.container.kind
        if kind is ContainerKind.SIDECAR:
            sidecars += cost
        elif kind is ContainerKind.APP:
            apps += cost
        elif request.container.name not in ended:
            peak |= sidecars + cost
    return peak | (sidecars + apps)


def is_over(pod: JsonObject) -> bool:
    """Tell whether *pod* has ended, so that it holds no device of HAMi's any more."""
    return _mapping(pod.get("status")).get("phase") in {"Succeeded", "Failed"}


def ended_init_containers(pod: JsonObject) -> frozenset[str]:
    """Return the names of the init containers that are done."""
    statuses = _mapping(pod.get("status")).get("initContainerStatuses")
    found = set()
    for status in statuses if isinstance(statuses, list) else ():
        terminated = _mapping(_mapping(_mapping(status).get("state")).get("terminated"))
        name = _mapping(status).get("name")
        if terminated.get("exitCode") == 0 and isinstance(name, str):
            found.add(name)
    return frozenset(found)


def allocated_mib(pod: JsonObject, containers: int) -> tuple[int, ...]:
    """Return the NVIDIA memory that each of *containers* was given, or nothing.

    A list that cannot be read, or has other places than containers, says nothing.
    """
    text = _mapping(_mapping(pod.get("metadata")).get("annotations")).get(ALLOCATED)
    if not isinstance(text, str) or not text:
        return ()
    slots = decode_pod_devices(text, containers)
    if isinstance(slots, Undecodable):
        return ()
    return tuple(sum(device.memory_mib for device in devices) for devices in slots)


def _of_container(
    request: ContainerRequest,
    names: Sequence[QuotaNames],
    largest_mib: int | None,
    given_mib: int | None,
) -> Cost:
    cost = NOTHING
    for device in request.devices:
        for each in names:
            if each.word == device.word and device.count > 0:
                is_nvidia = device.word == NVIDIA
                cost += _of_device(
                    device,
                    each,
                    largest_mib if is_nvidia else None,
                    given_mib if is_nvidia else None,
                )
    return cost


def _of_device(
    device: DeviceRequest, names: QuotaNames, largest_mib: int | None, given_mib: int | None
) -> Cost:
    amounts = {names.count: device.count, names.cores: device.cores * device.count}
    unsized = frozenset[str]()
    if device.memory_mib is not None:
        amounts[names.memory] = device.memory_mib * device.count
    elif given_mib:
        amounts[names.memory] = given_mib
    elif largest_mib is not None:
        percent = 100 if device.memory_percent is None else device.memory_percent
        amounts[names.memory] = max(1, largest_mib * percent // 100) * device.count
    elif names.memory:
        unsized = frozenset({names.memory})
    kept = {name: amount for name, amount in amounts.items() if name and amount > 0}
    return Cost(amounts=kept, unsized=unsized)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
