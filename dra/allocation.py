"""What the scheduler gave to a claim, as far as this driver is concerned.

Plain values between the API's JSON and the rules: reading an allocation can go wrong in many
ways, and the rules should not have to know them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocatedDevice:
    """One result of ours in `status.allocation.devices.results`."""

    request: str
    """As in the result: `main` or `main/sub`."""
    pool: str
    device: str
    share_id: str | None
    admin: bool
    consumed: Mapping[str, str] | None
    """Quantities by capacity name; `None` where the result has no `consumedCapacity`."""
    device_class: str
    """Class that the request (or the chosen subrequest) names; empty when not found."""

    @property
    def main_request(self) -> str:
        """The part that containers refer to."""
        return self.request.partition("/")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigEntry:
    """One opaque configuration for this driver, in the allocation's order."""

    from_class: bool
    requests: tuple[str, ...]
    """Empty: for all; else names of main requests or `main/sub`."""
    parameters: Mapping[str, Any]

    def names(self, device: AllocatedDevice) -> bool:
        """Tell whether this entry names *device*'s request, whole or by its main part."""
        return device.request in self.requests or device.main_request in self.requests

    def applies_to(self, device: AllocatedDevice) -> bool:
        """Tell whether this entry counts for *device*."""
        return not self.requests or self.names(device)


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """A claim's allocation on this node."""

    uid: str
    namespace: str
    name: str
    resource_version: str
    devices: tuple[AllocatedDevice, ...]
    configs: tuple[ConfigEntry, ...]
    pod_uids: frozenset[str]
    """Pods that the claim is reserved for."""
    digest: str
    """Of the results and configuration of ours, as the API server wrote them."""
