"""Whether a GPU is what the annotations of a pod ask for, by HAMi's own rules.

HAMi compares the texts of annotations with what a node registered (HAMi v2.10: `CheckUUID` and
`CheckType` in `pkg/device/devices.go`). A blank text asks for nothing; a text of empty members
asks for what no GPU is. What excludes goes before what selects.
"""

from collections.abc import Mapping

from hami.userkeys import NOUSE_TYPE, NOUSE_UUID, USE_TYPE, USE_UUID, VGPU_MODE

_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE = frozenset({"0", "f", "F", "FALSE", "false", "False"})


def members(text: str) -> tuple[str, ...] | None:
    """Return the members of a list that are not empty; `None` for a blank text."""
    if not text.strip():
        return None
    return tuple(filter(None, (each.strip() for each in text.split(","))))


def uuid_matches(uuid: str, *, use: str = "", nouse: str = "") -> bool:
    """Tell whether a GPU may be taken by its UUID, given the texts of both annotations."""
    wanted, unwanted = members(use), members(nouse)
    if unwanted and uuid in unwanted:
        return False
    return wanted is None or uuid in wanted


def type_matches(model: str, *, use: str = "", nouse: str = "") -> bool:
    """Tell the same by its registered model, of which any part counts in either case."""
    wanted, unwanted = members(use), members(nouse)
    model = model.lower()
    if unwanted and any(each.lower() in model for each in unwanted):
        return False
    return wanted is None or any(each.lower() in model for each in wanted)


def mode_matches(mode: str, wanted: str) -> bool:
    """Tell it by its mode, such as `hami-core`: the text only has to contain it."""
    return not wanted.strip() or mode in wanted


def suits(annotations: Mapping[str, str], *, model: str, uuid: str, mode: str) -> bool:
    """Tell whether a pod with *annotations* takes an NVIDIA GPU."""
    return (
        type_matches(
            model, use=annotations.get(USE_TYPE, ""), nouse=annotations.get(NOUSE_TYPE, "")
        )
        and uuid_matches(
            uuid, use=annotations.get(USE_UUID, ""), nouse=annotations.get(NOUSE_UUID, "")
        )
        and mode_matches(mode, annotations.get(VGPU_MODE, ""))
    )


def parsed_bool(text: str) -> bool | None:
    """Return what Go's ParseBool makes of *text*; `None` where that is an error."""
    if text in _TRUE:
        return True
    return False if text in _FALSE else None


def registered_model(product_name: str) -> str:
    """Return the model that HAMi's plugin registers for a GPU of NVML's *product_name*."""
    return product_name if product_name.startswith("NVIDIA") else f"NVIDIA-{product_name}"
