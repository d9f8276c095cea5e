"""One backend of HAMi: its words, keys and defaults as data, its habits as one named rule."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from gpu.refusal import Refusal
from hami.containers import Container, JsonObject
from hami.requests import DeviceRequest, Edits
from hami.vendor_rules.asking import Asking


class Lock(StrEnum):
    """Which annotation of the node a binding holds until the device plugin is done."""

    NONE = ""
    SHARED = "hami.io/mutex.lock"
    CAMBRICON = "cambricon.com/dsmlu.lock"


class Register(StrEnum):
    """How a node says what devices it has."""

    CAPACITY = "capacity"
    """Nothing is written: devices follow from `status.capacity`."""
    COLON = "colon"
    JSON = "json"
    METAX = "metax"
    ENFLAME = "enflame"


@dataclass(frozen=True, slots=True, kw_only=True)
class VendorReading:
    """What one container says to one vendor; *request* is `None` where it asks for nothing."""

    request: DeviceRequest | None = None
    edits: Edits = field(default_factory=Edits)
    reasons: tuple[Refusal, ...] = ()
    """Not empty: the pod must be refused, and *request* is `None`."""
    warnings: tuple[Refusal, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Vendor:
    """One backend; a name that it does not have is empty."""

    word: str
    """HAMi's common word, the key in its maps and the type of its requests."""
    count_name: str = ""
    memory_name: str = ""
    core_name: str = ""
    in_request_key: str = ""
    """The pod's annotation of devices that its device plugin has yet to hand out."""
    support_key: str = ""
    """The pod's annotation of devices it was given, from which usage is counted."""
    scheduler_keys: tuple[str, ...] = ()
    """Further annotations of a pod that the scheduler writes."""
    register_key: str = ""
    handshake_key: str = ""
    register: Register = Register.CAPACITY
    lock: Lock = Lock.NONE
    memory_factor: int = 1
    """MiB in one unit of *memory_name*."""
    default_cores: int = 0
    whole_card: bool = True
    """Whether a container that names no memory gets 100 % of it, else none of its own."""
    edits_all: bool = False
    """Whether its rule has something to write into containers that name none of its keys."""
    use_uuid_keys: tuple[str, ...] = ()
    nouse_uuid_keys: tuple[str, ...] = ()
    use_type_keys: tuple[str, ...] = ()
    nouse_type_keys: tuple[str, ...] = ()
    rule: Callable[["Vendor", Asking], DeviceRequest | None]

    @property
    def keys(self) -> frozenset[str]:
        """All resource names that it serves."""
        return frozenset(filter(None, (self.count_name, self.memory_name, self.core_name)))

    @property
    def quota_memory_name(self) -> str:
        """What `limits.` of a quota is followed by; its numbers are in units, usage in MiB."""
        return self.memory_name

    @property
    def quota_memory_factor(self) -> int:
        """MiB in one unit of a quota's memory."""
        return self.memory_factor

    @property
    def quota_core_name(self) -> str:
        """What `limits.` of a quota is followed by."""
        return self.core_name

    @property
    def owned_keys(self) -> frozenset[str]:
        """All annotations of pods that only the scheduler and the device plugin write."""
        return frozenset(filter(None, (self.in_request_key, self.support_key))) | frozenset(
            self.scheduler_keys
        )

    def read(self, container: Container, pod: JsonObject) -> VendorReading:
        """Read what *container* of *pod* asks of this vendor; never raises."""
        asking = Asking(container, pod)
        request = self.rule(self, asking)
        if asking.reasons:
            reasons = tuple(asking.reasons)
            return VendorReading(reasons=reasons, warnings=tuple(asking.warnings))
        return VendorReading(request=request, edits=asking.edits(), warnings=tuple(asking.warnings))
