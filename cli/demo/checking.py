"""Holds what a pod got against what its manifest asks; every difference is a sentence."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from cdi.enforcement import PRELOAD_PATH, REGION_PATH
from cdi.region import REGION_SIZE
from cli.demo.reading import Given, PodState, Published
from cli.demo.scenes import PodWish, Wish
from gpu import names
from kube.objects import JsonObject
from sim.runtime.container import ContainerView

_MEMORY_LIMIT = "CUDA_DEVICE_MEMORY_LIMIT_"
_CORE_LIMIT = "CUDA_DEVICE_SM_LIMIT_"
_CORES_ALL = 100
_CAPABILITY_NODES = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """All that is known of one pod."""

    wish: PodWish
    state: PodState
    given: tuple[Given, ...]
    devices: Mapping[tuple[str, str], Published]
    container: ContainerView | None
    granted_mib: int | None
    """As the agent's metrics sum it; `None` where it has no such claim."""
    claims: tuple[JsonObject, ...] = ()
    """The claims in the templates that the pod names."""

    def published(self, given: Given) -> Published:
        """Return the device that was given."""
        return self.devices[given.node, given.device]


def differences(evidence: Evidence) -> list[str]:
    """Return what is not as the manifest asks."""
    if not evidence.wish.fits:
        return list(_of_pending(evidence))
    if evidence.state.phase != "Running" or evidence.container is None:
        return [f"is {evidence.state.phase} and not running: {evidence.state.why_pending}"]
    found = [*_of_translation(evidence), *_of_allocation(evidence)]
    found += _of_limits(evidence, evidence.container)
    found += _of_nodes(evidence, evidence.container)
    found += _of_metrics(evidence)
    return found


def _of_pending(evidence: Evidence) -> Iterator[str]:
    if evidence.state.phase != "Pending":
        yield f"is {evidence.state.phase} although it cannot fit"
    if evidence.given:
        yield "was given a device although it cannot fit"
    if not evidence.state.why_pending:
        yield "is pending without a reason"


def _of_allocation(evidence: Evidence) -> Iterator[str]:
    for wish in evidence.wish.wishes:
        # Of a request with alternatives the chosen one is named behind a slash.
        given = [each for each in evidence.given if _is_for(wish, each)]
        if len(given) != wish.count:
            yield f"request {wish.request}: {len(given)} devices and not {wish.count}"
        if len({each.device for each in given}) != len(given):
            yield f"request {wish.request}: the same device twice"
        for each in given:
            yield from _of_device(wish, each, evidence.published(each))


def _is_for(wish: Wish, given: Given) -> bool:
    return given.request.partition("/")[0] == wish.request


def _of_translation(evidence: Evidence) -> Iterator[str]:
    left = evidence.wish.limits.keys() & evidence.state.resources
    if left:
        yield f"limits {sorted(left)} are left in the pod"
    if evidence.wish.limits and not evidence.state.templates:
        yield "has no claim although it asks for a GPU"


def _of_device(wish: Wish, given: Given, published: Published) -> Iterator[str]:
    mig = published.mode == names.MODE_MIG
    if mig != (wish.device_class == names.CLASS_MIG):
        yield f"request {wish.request}: a device of mode {published.mode}"
    if mig:
        return
    wanted_mib = published.memory_mib if wish.memory_mib is None else wish.memory_mib
    if wish.memory_percent is not None:
        wanted_mib = published.memory_mib * wish.memory_percent // 100
    if given.memory_mib != wanted_mib:
        yield f"request {wish.request}: {given.memory_mib} MiB and not {wanted_mib}"
    if given.cores_percent != wish.cores_percent:
        yield f"request {wish.request}: {given.cores_percent} % and not {wish.cores_percent}"
    if given.shares != 1:
        yield f"request {wish.request}: {given.shares} shares and not 1"


def expected_limits(evidence: Evidence) -> list[tuple[int, int]]:
    """Return MiB and percent by index in the container; nothing where nothing is limited."""
    in_order = sorted(evidence.given, key=lambda each: evidence.published(each).pci_bus_id)
    limits = [(each.memory_mib or 0, each.cores_percent or _CORES_ALL) for each in in_order]
    whole = all(
        evidence.published(each).mode == names.MODE_MIG
        or (each.memory_mib == evidence.published(each).memory_mib and not each.cores_percent)
        for each in in_order
    )
    return [] if whole else limits


def _of_limits(evidence: Evidence, container: ContainerView) -> Iterator[str]:
    limits = expected_limits(evidence)
    wanted = {f"{_MEMORY_LIMIT}{i}": f"{mib}m" for i, (mib, _) in enumerate(limits)}
    wanted |= {f"{_CORE_LIMIT}{i}": str(cores) for i, (_, cores) in enumerate(limits)}
    found = {
        name: value
        for name, value in container.env.items()
        if name.startswith((_MEMORY_LIMIT, _CORE_LIMIT))
    }
    if found != wanted:
        yield f"limits in the container are {found} and not {wanted}"
    if "CUDA_VISIBLE_DEVICES" in container.env:
        yield "CUDA_VISIBLE_DEVICES is set, which HAMi-core reads wrongly"
    preload = container.visible(PRELOAD_PATH)
    if (preload is not None) != bool(limits):
        yield f"{PRELOAD_PATH} is {'there' if preload else 'missing'}"
    if limits:
        region = container.visible(REGION_PATH)
        if region is None or region.stat().st_size != REGION_SIZE:
            yield f"{REGION_PATH} is not a region of {REGION_SIZE} bytes"


def _of_nodes(evidence: Evidence, container: ContainerView) -> Iterator[str]:
    gpus = {evidence.published(each).parent_uuid for each in evidence.given}
    partitions = [
        each for each in evidence.given if evidence.published(each).mode == names.MODE_MIG
    ]
    paths = [each.path for each in container.devices]
    gpu_nodes = [path for path in paths if path.removeprefix("/dev/nvidia").isdigit()]
    capabilities = [path for path in paths if path.startswith("/dev/nvidia-caps/")]
    if len(gpu_nodes) != len(gpus):
        yield f"device nodes {gpu_nodes} and not those of {len(gpus)} GPUs"
    if len(capabilities) != _CAPABILITY_NODES * len(partitions):
        yield f"capability nodes {capabilities} for {len(partitions)} MIG devices"
    if "/dev/nvidiactl" not in paths:
        yield "/dev/nvidiactl is missing"


def _of_metrics(evidence: Evidence) -> Iterator[str]:
    wanted = sum(
        evidence.published(each).memory_mib if each.memory_mib is None else each.memory_mib
        for each in evidence.given
    )
    if evidence.granted_mib != wanted:
        yield f"the agent's metrics say {evidence.granted_mib} MiB and not {wanted}"
