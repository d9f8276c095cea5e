"""The one file that a prepared claim has: its devices, and what they have in common.

The runtime applies a file's common edits once per container and a device's edits once per name,
so what belongs to the claim as a whole (libraries, limits, the region) is common.
"""

from collections.abc import Mapping

from cdi.edits import ContainerEdits
from cdi.emit import check_emitted
from cdi.errors import SpecError
from cdi.names import KIND, check_claim_uid, device_name, qualified_name
from cdi.spec import Device, Spec
from cdi.version import KNOWN, LOWEST_EMITTED, minimum_version, newest

__all__ = ["KIND", "claim_spec", "device_name", "qualified_name"]


def claim_spec(
    claim_uid: str, *, common: ContainerEdits, devices: Mapping[str, ContainerEdits]
) -> Spec:
    """Return the spec of a claim; the keys of *devices* are names made by `device_name`.

    Refuses a name that is not this claim's; SpecError if the edits are not fit to be written.
    """
    prefix = f"{check_claim_uid(claim_uid)}-"
    for name in devices:
        qualified_name(name)
        if not name.startswith(prefix):
            raise SpecError("devices", f"{name} is not of claim {claim_uid}")
    draft = Spec(
        cdi_version=KNOWN[-1],
        kind=KIND,
        container_edits=common,
        devices=tuple(Device(name=name, container_edits=devices[name]) for name in sorted(devices)),
    )
    version = newest(LOWEST_EMITTED, minimum_version(draft))
    return check_emitted(draft.model_copy(update={"cdi_version": version}))
