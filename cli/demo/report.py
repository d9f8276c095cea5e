"""The demo's result as plain data: what a table shows and what `--json` prints."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cdi.library import CONTAINER_LIBRARY_PATH, PLACEHOLDER_LABEL
from cli.demo.checking import Evidence, differences
from cli.demo.older import OlderRow
from cli.demo.reading import Given, Published
from gpu import names
from kube.objects import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Amount:
    """How much of something is given."""

    used: int
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRow:
    """One published device and what is given of it."""

    node: str
    product: str
    mode: str
    uuid: str
    memory_mib: Amount
    cores_percent: Amount | None
    """`None` for a MIG device, whose compute is not shared."""
    shares: Amount | None
    pods: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerDetail:
    """What one container got."""

    pod: str
    node: str
    env: dict[str, str]
    devices: tuple[str, ...]
    mounts: tuple[tuple[str, str, str], ...]
    """Path in the container, path on the host, options."""
    placeholder: bool
    """The limiting library is a stand-in that enforces nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodRow:
    """One pod and whether it got what its manifest asks."""

    name: str
    phase: str
    node: str
    why_pending: str
    differences: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LegacyRow:
    """A pod that asked in HAMi's words, before and after."""

    pod: str
    limits: dict[str, str]
    """In the manifest."""
    template: str
    asks: tuple[str, ...]
    """What the claim asks for, one text for each alternative."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Everything that is shown."""

    devices: tuple[DeviceRow, ...]
    pods: tuple[PodRow, ...]
    legacy: tuple[LegacyRow, ...]
    detail: ContainerDetail | None
    leftovers: tuple[str, ...] = ()
    """What was still there after all pods were deleted."""
    older: tuple[OlderRow, ...] = ()
    """The pods of the second scene."""

    @property
    def ok(self) -> bool:
        """Tell whether every pod got what its manifest asks, and nothing was left of any."""
        differences = [
            *(pod.differences for pod in self.pods),
            *(row.differences for row in self.older),
        ]
        return not self.leftovers and not any(differences)


def make_report(evidence: list[Evidence], *, detail_of: str, roots: Mapping[str, Path]) -> Report:
    """Return the report on *evidence*, with the container of the pod *detail_of* in detail.

    *roots* are the directories that stand for the nodes' `/`: they are left out of paths.
    """
    published = evidence[0].devices.values() if evidence else ()
    holders = [(each.state.name, given) for each in evidence for given in each.given]
    in_order = sorted(published, key=lambda each: (each.node, each.pci_bus_id, each.name))
    return Report(
        devices=tuple(_device_row(device, holders) for device in in_order),
        pods=tuple(_pod_row(each) for each in evidence),
        legacy=tuple(_legacy_row(each) for each in evidence if each.wish.limits),
        detail=next(
            (_detail(each, roots) for each in evidence if each.state.name == detail_of), None
        ),
    )


def _device_row(device: Published, holders: list[tuple[str, Given]]) -> DeviceRow:
    mine = [
        (pod, given)
        for pod, given in holders
        if (given.node, given.device) == (device.node, device.name)
    ]
    shared = device.mode == names.MODE_SHARED
    memory = sum(
        device.memory_mib if given.memory_mib is None else given.memory_mib for _, given in mine
    )
    cores = sum(given.cores_percent for _, given in mine)
    shares = sum(given.shares for _, given in mine)
    title = f"{device.product} {device.profile}" if device.mode == names.MODE_MIG else None
    return DeviceRow(
        node=device.node,
        product=title or device.product,
        mode=device.mode,
        uuid=device.uuid,
        memory_mib=Amount(used=memory, total=device.memory_mib),
        cores_percent=Amount(used=cores, total=100) if shared else None,
        shares=Amount(used=shares, total=device.shares) if shared else None,
        pods=tuple(sorted({pod for pod, _ in mine})),
    )


def _pod_row(evidence: Evidence) -> PodRow:
    state = evidence.state
    return PodRow(
        name=state.name,
        phase=state.phase,
        node=state.node,
        why_pending=state.why_pending,
        differences=tuple(differences(evidence)),
    )


def _legacy_row(evidence: Evidence) -> LegacyRow:
    return LegacyRow(
        pod=evidence.state.name,
        limits=dict(evidence.wish.limits),
        template=", ".join(evidence.state.templates),
        asks=tuple(
            text
            for claim in evidence.claims
            for request in claim["devices"]["requests"]
            for text in map(_asked, request.get("firstAvailable") or [request["exactly"]])
        ),
    )


def _asked(body: JsonObject) -> str:
    amounts = body.get("capacity", {}).get("requests", {})
    told = ", ".join(f"{name} {amount}" for name, amount in amounts.items())
    return f"{body['deviceClassName']}: {told}"


def _detail(evidence: Evidence, roots: Mapping[str, Path]) -> ContainerDetail | None:
    container = evidence.container
    if container is None:
        return None
    root = str(roots[evidence.state.node])
    library = container.visible(CONTAINER_LIBRARY_PATH)
    return ContainerDetail(
        pod=evidence.state.name,
        node=evidence.state.node,
        env={key: container.env[key] for key in sorted(container.env)},
        devices=tuple(
            f"{each.path} ({each.type} {each.major}:{each.minor})" for each in container.devices
        ),
        mounts=tuple(
            (each.container_path, each.host_path.removeprefix(root), ",".join(each.options))
            for each in container.mounts
            if each.source is not None
        ),
        placeholder=library is not None and library.read_bytes().endswith(PLACEHOLDER_LABEL),
    )
