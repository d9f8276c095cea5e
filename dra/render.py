"""The CDI spec of a prepared claim: a function of its record and of the driver's files.

Walking a driver root takes long, so the edits that do not depend on a claim are made once per
inventory. A container may name only one request of a claim, but limits are by index: once
anything in a claim is limited, every container that uses it gets all of its GPUs, so that the
index always means the same GPU.

Most claims have one device, and their specs are alike but for the UID and the share ID in them. So
what is rendered and checked in full is a specimen, once for each form of claim.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from cdi.claim import claim_spec
from cdi.edits import ContainerEdits, merge
from cdi.enforcement import DeviceLimit, Enforcement, enforcement_edits
from cdi.errors import SpecError
from cdi.library import HookLibrary
from cdi.names import device_name, qualified_name
from cdi.spec import render
from dra.record import PreparedClaim, PreparedDevice
from gpu.model import GpuUuid
from gpu.refusal import Refusal, RefusedError

_SPECIMEN_UID: Final = "ffffffff-ffff-4fff-8fff-ffffffffffff"
_SPECIMEN_SHARE_ID: Final = "eeeeeeee-eeee-4eee-8eee-eeeeeeeeeeee"
_SPECIMENS_MAX: Final = 256


class SpecRenderer:
    """Renders specs with the edits of one driver root and inventory."""

    def __init__(
        self,
        *,
        common: ContainerEdits,
        by_uuid: Mapping[GpuUuid, ContainerEdits | Refusal],
        library: Callable[[str], HookLibrary],
        region_host_path: Callable[[str], str],
    ) -> None:
        self._common = common
        self._by_uuid = by_uuid
        self._library = library
        self._region_host_path = region_host_path
        self._specimens: dict[tuple[Any, ...], bytes] = {}

    def render(self, claim: PreparedClaim) -> bytes:
        """Return the spec file of *claim*; raise `RefusedError` when a device is gone."""
        if len(claim.devices) != 1:
            return self.render_in_full(claim)
        device = claim.devices[0]
        # The only check that a text of this claim's own needs.
        cdi_id(claim, device)
        share_id = device.share_id or _SPECIMEN_SHARE_ID
        lengths = len(claim.uid), len(share_id)
        if lengths != (len(_SPECIMEN_UID), len(_SPECIMEN_SHARE_ID)):
            return self.render_in_full(claim)
        try:
            specimen = self._specimen(claim, device)
        except RefusedError:
            # For the same refusal with the claim's own UID in it.
            return self.render_in_full(claim)
        spec = specimen.replace(_SPECIMEN_UID.encode(), claim.uid.encode())
        return spec.replace(_SPECIMEN_SHARE_ID.encode(), share_id.encode())

    def library(self, sha256: str) -> HookLibrary:
        """Return the library that is kept under *sha256*; raise `RefusedError` if none is."""
        return self._library(sha256)

    def render_in_full(self, claim: PreparedClaim) -> bytes:
        """Return the same as `render`, without a specimen."""
        own = {cdi_name(claim, device): self._edits(device) for device in claim.devices}
        common = [self._common]
        if claim.options is not None:
            # Several shares of one GPU are one set of device nodes.
            by_gpu = {device.uuid: self._edits(device) for device in claim.devices}
            common += [*by_gpu.values(), enforcement_edits(self._enforcement(claim))]
        try:
            return render(claim_spec(claim.uid, common=merge(common), devices=own))
        except SpecError as error:
            refusal = Refusal(
                code="SpecUnfit", field="driver files", value=claim.uid, limit=str(error)
            )
            raise RefusedError(refusal) from error

    def _specimen(self, claim: PreparedClaim, device: PreparedDevice) -> bytes:
        shared = device.share_id is not None
        form = (device.uuid, device.device, shared, claim.limits, claim.options)
        spec = self._specimens.get(form)
        if spec is None:
            named = replace(device, share_id=_SPECIMEN_SHARE_ID if shared else None)
            spec = self.render_in_full(replace(claim, uid=_SPECIMEN_UID, devices=(named,)))
            if len(self._specimens) >= _SPECIMENS_MAX:
                self._specimens.clear()
            self._specimens[form] = spec
        return spec

    def _edits(self, device: PreparedDevice) -> ContainerEdits:
        edits = self._by_uuid.get(device.uuid)
        if isinstance(edits, Refusal):
            raise RefusedError(edits)
        if edits is None:
            raise RefusedError(
                Refusal(
                    code="DeviceGone",
                    field="status.allocation.devices.results",
                    value=device.device,
                    limit="the node has no such device now",
                )
            )
        return edits

    def _enforcement(self, claim: PreparedClaim) -> Enforcement:
        options = claim.options
        assert options is not None  # noqa: S101  # the caller looked
        return Enforcement(
            library=self._library(options.library_sha256),
            region_host_path=self._region_host_path(claim.uid),
            limits=tuple(
                DeviceLimit(memory_mib=each.memory_mib, cores_percent=each.cores_percent)
                for each in claim.limits
            ),
            priority=options.priority,
            core_policy=options.core_policy,
            log_level=options.log_level,
        )


def cdi_name(claim: PreparedClaim, device: PreparedDevice) -> str:
    """Return the name of *device* in the spec of *claim*."""
    return device_name(claim.uid, device.device, device.share_id)


def cdi_id(claim: PreparedClaim, device: PreparedDevice) -> str:
    """Return what kubelet hands to the runtime for *device*."""
    return qualified_name(cdi_name(claim, device))
