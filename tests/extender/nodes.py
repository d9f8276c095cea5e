"""Builders of nodes, devices and pods for what decides; pods are read as the program reads them."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from extender.fitting import ENDLESS, QuotaRoom, fit_node
from extender.model import Ask, DeviceUsage, Misfit, NodeUsage, Placement, Policies
from hami import resources
from hami.deviceconfig import DeviceConfig
from hami.devices import MigPlacement, MigProfile, RegisteredDevice
from hami.requests import Valid
from hami.vendors import from_sections

ALL_VENDORS: Final = DeviceConfig(vendors=from_sections({}, ascend=True, iluvatar=True))
DEFAULTS: Final = Policies()
GPU: Final = "nvidia.com/gpu"
MEMORY: Final = "nvidia.com/gpumem"
CORES: Final = "nvidia.com/gpucores"
PERCENT: Final = "nvidia.com/gpumem-percentage"
A100: Final = "NVIDIA A100-SXM4-40GB"


def device(uuid: str, index: int = 0, **said: Any) -> RegisteredDevice:
    """Return a device; what is not said is an A100's."""
    fields: dict[str, Any] = {
        "word": "NVIDIA",
        "count": 10,
        "memory_mib": 40960,
        "cores": 100,
        "type": A100,
        "numa": 0,
        "mode": "hami-core",
        "healthy": True,
    }
    return RegisteredDevice(uuid=uuid, index=index, **(fields | said))


def usage(of: RegisteredDevice, slots: int = 0, mib: int = 0, cores: int = 0) -> DeviceUsage:
    """Return a device with what is taken of it."""
    return DeviceUsage(device=of, used_slots=slots, used_mib=mib, used_cores=cores)


def node(
    *devices: RegisteredDevice | DeviceUsage,
    name: str = "gpu1",
    annotations: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
) -> NodeUsage:
    """Return a node with its devices by vendor."""
    by_word: dict[str, list[DeviceUsage]] = {}
    for each in devices:
        used = each if isinstance(each, DeviceUsage) else usage(each)
        by_word.setdefault(used.device.word, []).append(used)
    return NodeUsage(
        name=name,
        devices=by_word,
        annotations=annotations or {},
        labels=labels or {},
        capacity={},
    )


def gpus(count: int, **said: Any) -> NodeUsage:
    """Return a node with GPUs G0, G1 and so on, half of them on each NUMA node."""
    return node(
        *(device(f"G{each}", each, **({"numa": each * 2 // count} | said)) for each in range(count))
    )


def container(name: str = "c", **limits: int | str) -> dict[str, Any]:
    """Return a container with limits; `gpu`, `mem`, `cores` and `percent` are NVIDIA's."""
    names = {"gpu": GPU, "mem": MEMORY, "cores": CORES, "percent": PERCENT}
    said = {names.get(key, key): str(value) for key, value in limits.items()}
    return {"name": name, "resources": {"limits": said}}


def limited(**limits: int | str) -> dict[str, Any]:
    """Return a container of one name."""
    return container("c", **limits)


def pod(
    *containers: dict[str, Any],
    init: Iterable[dict[str, Any]] = (),
    annotations: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return a pod."""
    return {
        "metadata": {
            "name": "p",
            "namespace": "default",
            "uid": "u",
            "annotations": dict(annotations or {}),
        },
        "spec": {"initContainers": list(init), "containers": list(containers)},
    }


def ask(raw: dict[str, Any], config: DeviceConfig = ALL_VENDORS, *, uid: str = "u") -> Ask:
    """Return what *raw* wants; it must want something."""
    valid = resources.read(raw, config)
    assert isinstance(valid, Valid), valid
    metadata = raw["metadata"]
    return Ask(
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=uid,
        valid=valid,
        annotations=metadata["annotations"],
    )


def fit(
    on: NodeUsage,
    raw: dict[str, Any],
    *,
    policies: Policies = DEFAULTS,
    room: QuotaRoom = ENDLESS,
    config: DeviceConfig = ALL_VENDORS,
) -> Placement | Misfit:
    """Return what becomes of a pod on a node, at noon of some day."""
    wanted = ask(raw, config)
    return fit_node(on, wanted, config, policies, room, clock_ns=lambda: 1_700_000_000_000_000_000)


def placed(found: Placement | Misfit) -> Placement:
    """Return a placement."""
    assert isinstance(found, Placement), str(found)
    return found


def text(found: Placement | Misfit, word: str = "NVIDIA") -> str:
    """Return what HAMi's annotation would say of *word*, or the refusal."""
    if isinstance(found, Misfit):
        return str(found)
    return "".join(
        "".join(f"{d.uuid},{d.type},{d.memory_mib},{d.cores}:" for d in devices) + ";"
        for devices in found.slots[word]
    )


def uuids(found: Placement | Misfit, word: str = "NVIDIA") -> str:
    """Return the devices given, such as `G1 G0 | G2`, or the refusal."""
    if isinstance(found, Misfit):
        return str(found)
    return " | ".join(" ".join(d.uuid for d in devices) for devices in found.slots[word])


MIG_PROFILES: Final = (
    MigProfile(
        name="1g.5gb",
        memory_mib=4864,
        cores=15,
        slice_count=1,
        placements=tuple(MigPlacement(start=start, size=1) for start in range(7)),
    ),
    MigProfile(
        name="2g.10gb",
        memory_mib=9856,
        cores=29,
        slice_count=2,
        placements=tuple(MigPlacement(start=start, size=2) for start in (0, 2, 4)),
    ),
    MigProfile(
        name="3g.20gb",
        memory_mib=19968,
        cores=43,
        slice_count=3,
        placements=tuple(MigPlacement(start=start, size=4) for start in (0, 4)),
    ),
    MigProfile(
        name="7g.40gb",
        memory_mib=40192,
        cores=100,
        slice_count=7,
        placements=(MigPlacement(start=0, size=8),),
    ),
)


class NoMore:
    """A quota of MiB."""

    def __init__(self, memory_mib: int) -> None:
        self.memory_mib = memory_mib

    def has_room(self, word: str, memory_mib: int, cores: int) -> bool:
        """Tell whether it is kept."""
        del word, cores
        return memory_mib <= self.memory_mib


def mig_gpu(count: int = 7, **said: Any) -> DeviceUsage:
    """Return a GPU that is cut into instances."""
    return usage(device("G9", count=count, mode="mig", mig_profiles=MIG_PROFILES, **said))
