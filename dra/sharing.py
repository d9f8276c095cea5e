"""Whether the API server keeps what makes a GPU shareable, and the taints of those that are ill.

With the feature gate DRAConsumableCapacity off, the default of Kubernetes 1.34 and 1.35, the
server drops `allowMultipleAllocations` and every `requestPolicy` without an error, and the
scheduler would then give the whole GPU to the first who asks for a part of it. Versions do not
tell, because gates can be switched (DRADeviceTaints is another); so a slice is sent as a dry run,
which nobody ever sees, and the answer is compared with what was sent.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

import structlog

from dra.devices import SharingPolicy, build_devices
from dra.layout import build_slices
from dra.slice_diff import lost_fields
from gpu.model import ComputeMode, Gpu, GpuUuid, Inventory, PciBusId
from gpu.names import DRIVER
from kube.client import Client
from kube.errors import KubeError
from kube.events import EventType, Regarding
from kube.objects import JsonObject
from kube.paths import resource_slices
from kube.trial import would_keep

FEATURE_GATE = "DRAConsumableCapacity"

NO_ANSWER = (KubeError, ValueError, LookupError, TypeError, AttributeError, RecursionError)
"""What an answer that is no slice leads to, besides failures to get one."""
_SHARING_FIELDS = (".allowMultipleAllocations", ".requestPolicy")
_TAINT_FIELD = ".taints"

log = structlog.get_logger(__name__)


class EventSink(Protocol):
    """Where events for people go, such as `kube.events.EventRecorder`; must not raise."""

    def event(self, regarding: Regarding, kind: EventType, reason: str, message: str, /) -> None:
        """Record one event of *kind* `Normal` or `Warning`."""


class Sharing(StrEnum):
    """What is known about the server."""

    KEPT = "kept"
    DROPPED = "dropped"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class SharingVerdict:
    """The answer to the question of this module, with the reason for it."""

    state: Sharing
    taints_kept: bool = False
    dropped: tuple[str, ...] = ()
    """Paths in a ResourceSlice that the server did not keep."""
    server_version: str = ""
    detail: str = ""
    """Why it is unknown."""

    @property
    def kept(self) -> bool:
        """Tell whether GPUs may be offered in shares: only when that is known."""
        return self.state is Sharing.KEPT


NOT_ASKED = SharingVerdict(state=Sharing.UNKNOWN, detail="the server has not been asked yet")


def decisive_losses(lost: tuple[str, ...]) -> tuple[str, ...]:
    """Return those of the *lost* paths without which slices have to be others."""
    return _naming(lost, *_SHARING_FIELDS, _TAINT_FIELD)


def sharing_losses(lost: tuple[str, ...]) -> tuple[str, ...]:
    """Return those of the *lost* paths without which a GPU cannot be shared."""
    return _naming(lost, *_SHARING_FIELDS)


def keeps_taints(lost: tuple[str, ...]) -> bool:
    """Tell whether no taint is among the *lost* paths."""
    return not _naming(lost, _TAINT_FIELD)


def _naming(lost: tuple[str, ...], *fields: str) -> tuple[str, ...]:
    return tuple(path for path in lost if any(field in path for field in fields))


class SharingProbe:
    """Asks one API server; keeps nothing between two calls."""

    def __init__(self, client: Client, *, node_name: str, node_uid: str) -> None:
        self._client = client
        self._slice = _specimen(node_name, node_uid)

    def probe(self) -> SharingVerdict:
        """Return what the server does now; an error of it is the verdict `UNKNOWN`."""
        try:
            version = self._client.server_version()
            lost = decisive_losses(self.losses())
        except NO_ANSWER as error:
            log.warning("server could not be probed for sharing", error=str(error))
            return SharingVerdict(state=Sharing.UNKNOWN, detail=str(error) or repr(error))
        return SharingVerdict(
            state=Sharing.DROPPED if sharing_losses(lost) else Sharing.KEPT,
            taints_kept=keeps_taints(lost),
            dropped=lost,
            server_version=version,
        )

    def losses(self) -> tuple[str, ...]:
        """Return the paths that the server would drop; raises one of `NO_ANSWER`."""
        answer = would_keep(self._client, resource_slices(), self._slice)
        return lost_fields(self._slice["spec"], answer["spec"])


def _specimen(node_name: str, node_uid: str) -> JsonObject:
    """Return a slice with one device of the very form in which real ones are published."""
    gpu = Gpu(
        uuid=GpuUuid("GPU-00000000-0000-0000-0000-000000000000"),
        pci_bus_id=PciBusId("0000:00:00.0"),
        minor=0,
        name="probe",
        brand="probe",
        architecture="probe",
        memory_mib=1024,
        memory_reserved_mib=0,
        compute_capability="1.0",
        driver_version="1.0",
        cuda_driver_version="1.0",
        numa_node=None,
        pcie_root=None,
        mig_enabled=False,
        compute_mode=ComputeMode.DEFAULT,
    )
    inventory = Inventory(driver_version="1.0", cuda_driver_version="1.0", gpus=(gpu,))
    offer = build_devices(inventory, sharing_kept=True, policy=SharingPolicy())
    taint = {"key": f"{DRIVER}/probe", "effect": "NoSchedule"}
    devices = [device | {"taints": [taint]} for device in offer.devices]
    (item,) = build_slices(devices, node_name=node_name, node_uid=node_uid)
    return item | {"spec": item["spec"] | {"pool": item["spec"]["pool"] | {"generation": 1}}}
