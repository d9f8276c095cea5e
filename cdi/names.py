"""What the CDI library accepts as a vendor, a class and a device name (pkg/parser/parser.go).

Our own names are checked by the stricter rules that SPEC.md states and the library does not
enforce, because other readers (crun, podman, docker, NRI plugins) may.
"""

import re
from typing import Final

from gpu.refusal import Refusal, RefusedError

VENDOR: Final = "k8s.gpuslice.io"
CLASS: Final = "claim"
KIND: Final = f"{VENDOR}/{CLASS}"
"""Our own: `nvidia.com/gpu` belongs to the toolkit, and a name defined twice is lost for both."""

_VENDOR_OR_CLASS = re.compile(r"[A-Za-z]([A-Za-z0-9_.-]*[A-Za-z0-9])?")
_DEVICE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.:-]*[A-Za-z0-9])?")
_QUALIFIED = re.compile(r"[a-z0-9.-]+/[a-z0-9_-]+=[A-Za-z0-9_.:-]+")
_CLAIM_UID = re.compile(r"[0-9A-Za-z][0-9A-Za-z-]{0,127}")


def is_kind(kind: str) -> bool:
    """Tell whether *kind* is `vendor/class` as the library reads it."""
    vendor, slash, cls = kind.partition("/")
    return bool(slash and _VENDOR_OR_CLASS.fullmatch(vendor) and _VENDOR_OR_CLASS.fullmatch(cls))


def is_device_name(name: str) -> bool:
    """Tell whether the library takes *name* for a device."""
    return _DEVICE.fullmatch(name) is not None


def check_claim_uid(claim_uid: str) -> str:
    """Return *claim_uid*, or refuse one that could leave a directory when used as a file name."""
    if _CLAIM_UID.fullmatch(claim_uid) is None:
        raise RefusedError(
            Refusal(
                code="ClaimUidInvalid",
                field="metadata.uid",
                value=claim_uid,
                limit="letters, digits and dashes, at most 128",
            )
        )
    return claim_uid


def device_name(claim_uid: str, device: str, share_id: str | None = None) -> str:
    """Return the name of a claim's device in the claim's file; the share ID keeps shares apart."""
    parts = [check_claim_uid(claim_uid), device]
    if share_id is not None:
        parts.append(share_id)
    return "-".join(parts)


def qualified_name(device: str) -> str:
    """Return what kubelet hands to the runtime for *device*: `k8s.gpuslice.io/claim=<device>`."""
    name = f"{KIND}={device}"
    if not is_device_name(device) or _QUALIFIED.fullmatch(name) is None:
        raise RefusedError(
            Refusal(code="DeviceNameInvalid", field="devices[].name", value=device),
        )
    return name
