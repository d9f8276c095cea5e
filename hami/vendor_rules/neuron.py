"""AWS Neuron: devices, or cores that fill whole devices."""

from dataclasses import dataclass

from hami.requests import DeviceRequest
from hami.vendor_rules.asking import Asking
from hami.vendor_rules.plain import sized
from hami.vendor_rules.vendor import Vendor


@dataclass(frozen=True, slots=True, kw_only=True)
class NeuronRule:
    """Read devices or cores; how many cores a device has is known from nodes alone."""

    cores_per_device: int = 2
    """2 for Inferentia 2 and Trainium, 4 for Inferentia 1."""

    def __call__(self, vendor: Vendor, asking: Asking) -> DeviceRequest | None:
        """Return what is asked for; a count of devices goes before one of cores."""
        if asking.says(vendor.count_name):
            return self._devices(vendor, asking)
        cores = asking.amount(vendor.core_name)
        if not cores:
            return None
        if cores <= self.cores_per_device:
            return sized(vendor, 1, cores=cores)
        if cores % self.cores_per_device:
            limit = f"{vendor.core_name} must be 1 or a multiple of {self.cores_per_device}"
            asking.refuse("CoresNotWholeDevices", vendor.core_name, limit)
        return sized(vendor, cores // self.cores_per_device, cores=self.cores_per_device)

    def _devices(self, vendor: Vendor, asking: Asking) -> DeviceRequest | None:
        count = asking.count(vendor.count_name, vendor.core_name)
        if not count:
            return None
        if asking.says(vendor.core_name):
            limit = f"{vendor.core_name} has no effect beside {vendor.count_name}"
            asking.warn("AmountIgnored", vendor.core_name, limit)
        return sized(vendor, count, cores=self.cores_per_device)
