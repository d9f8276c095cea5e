"""What all vendors' ways to annotate have in common, NVIDIA's among them.

NVIDIA's resources are read by a module of its own, so it is no `Vendor`; nodes and pods speak of
its devices as of any other's. Keys as in HAMi v2.10 (`pkg/device/nvidia/device.go`).
"""

from dataclasses import dataclass
from typing import Protocol

from hami.deviceconfig import DeviceConfig
from hami.requests import NVIDIA
from hami.vendor_rules.vendor import Lock, Register


class Backend(Protocol):
    """A vendor, as far as annotations are concerned; every `Vendor` is one."""

    @property
    def word(self) -> str:
        """HAMi's common word."""

    @property
    def count_name(self) -> str:
        """The resource that its device plugin advertises."""

    @property
    def register(self) -> Register:
        """The form in which a node says what it has."""

    @property
    def register_key(self) -> str:
        """The node's annotation of that."""

    @property
    def handshake_key(self) -> str:
        """The node's annotation of signs of life."""

    @property
    def in_request_key(self) -> str:
        """The pod's annotation of devices that are yet to be handed out."""

    @property
    def support_key(self) -> str:
        """The pod's annotation of devices that it was given."""

    @property
    def lock(self) -> Lock:
        """What a binding holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NvidiaBackend:
    """NVIDIA's."""

    count_name: str
    word: str = NVIDIA
    register: Register = Register.JSON
    """Of plugins up to v2.7 it is the colon form; both are read."""
    register_key: str = "hami.io/node-nvidia-register"
    handshake_key: str = "hami.io/node-handshake"
    in_request_key: str = "hami.io/vgpu-devices-to-allocate"
    support_key: str = "hami.io/vgpu-devices-allocated"
    lock: Lock = Lock.SHARED


def backends(config: DeviceConfig) -> tuple[Backend, ...]:
    """Return all that *config* serves, in the order in which HAMi locks nodes: by word."""
    name = config.nvidia.resource_count_name
    nvidia = (NvidiaBackend(count_name=name),) if name else ()
    found: tuple[Backend, ...] = (*nvidia, *config.vendors)
    return tuple(sorted(found, key=lambda each: each.word))
