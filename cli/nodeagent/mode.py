"""Whether a node serves claims or kubelet's device plugins: never both.

Each way counts what it has given away by itself, so a GPU that both offer would be given away
twice. A node changes from one to the other when nothing is in use any more.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final

from kube.objects import JsonObject

LABEL: Final = "gpuslice.io/node-mode"
AUTO: Final = "auto"
_SHOWN: Final = 5


class Mode(StrEnum):
    """How a node gives its GPUs away."""

    DRA = "dra"
    DEVICE_PLUGIN = "device-plugin"


class ModeError(Exception):
    """The node cannot be served, or not yet; the text says why and what to do."""


def label_of(node: JsonObject | None) -> str | None:
    """Return the label of *node* that says how it is served."""
    labels: Mapping[str, str] = (node or {}).get("metadata", {}).get("labels") or {}
    return labels.get(LABEL)


def decide(wanted: str, label: str | None) -> Mode | None:
    """Return the mode by the setting *wanted* and the Node's *label*; they must not differ.

    `None` where both leave it to the API server.
    """
    if label is not None and label not in set(Mode):
        message = f"label {LABEL}: `{label}`: one of {', '.join(Mode)}"
        raise ModeError(message)
    if wanted == AUTO:
        return None if label is None else Mode(label)
    if label not in {None, wanted}:
        message = (
            f"--mode is {wanted} and the label {LABEL} is {label}: a node serves one of them; "
            f"set --mode=auto or change the label"
        )
        raise ModeError(message)
    return Mode(wanted)


def by_server(*, keeps_shares: bool) -> Mode:
    """Return the mode in which GPUs can be shared on a cluster whose server *keeps_shares*."""
    return Mode.DRA if keeps_shares else Mode.DEVICE_PLUGIN


def still_used(mode: Mode, users: Sequence[str]) -> ModeError:
    """Return why a node cannot leave *mode* while *users*, pods or claims, hold its GPUs."""
    named = ", ".join(users[:_SHOWN])
    more = f" and {len(users) - _SHOWN} more" if len(users) > _SHOWN else ""
    what = "prepared claims" if mode is Mode.DRA else "pods with devices"
    message = f"{what} are left of the mode {mode}: {named}{more}; drain the node or let them end"
    return ModeError(message)
