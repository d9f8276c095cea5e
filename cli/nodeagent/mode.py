"""Whether a node serves claims or kubelet's device plugins: never both.

Each way counts what it has given away by itself, so a GPU that both offer would be given away
twice. A node changes from one to the other when nothing is in use any more.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Final

LABEL: Final = "gpuslice.io/node-mode"
AUTO: Final = "auto"
_SHOWN: Final = 5


class Mode(StrEnum):
    """How a node gives its GPUs away."""

    DRA = "dra"
    DEVICE_PLUGIN = "device-plugin"


class ModeError(Exception):
    """The node cannot be served, or not yet; the text says why and what to do."""


def decide(wanted: str, label: str | None) -> Mode:
    """Return the mode by the setting *wanted* and the Node's *label*; they must not differ.

    A Node without the label serves claims, unless the setting says otherwise.
    """
    if label is not None and label not in set(Mode):
        message = f"label {LABEL}: `{label}`: one of {', '.join(Mode)}"
        raise ModeError(message)
    if wanted == AUTO:
        return Mode(label or Mode.DRA)
    if label not in {None, wanted}:
        message = (
            f"--mode is {wanted} and the label {LABEL} is {label}: a node serves one of them; "
            f"set --mode=auto or change the label"
        )
        raise ModeError(message)
    return Mode(wanted)


def still_used(mode: Mode, users: Sequence[str]) -> ModeError:
    """Return why a node cannot leave *mode* while *users*, pods or claims, hold its GPUs."""
    named = ", ".join(users[:_SHOWN])
    more = f" and {len(users) - _SHOWN} more" if len(users) > _SHOWN else ""
    what = "prepared claims" if mode is Mode.DRA else "pods with devices"
    message = f"{what} are left of the mode {mode}: {named}{more}; drain the node or let them end"
    return ModeError(message)
