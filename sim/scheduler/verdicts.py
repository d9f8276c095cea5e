"""Why a device was refused: a stable code with the value that met a limit.

The search meets a device many times while it goes back and forth; what is kept is the first
refusal of a device for a request.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from kube.objects import ObjectKey
from sim.scheduler.devices import DeviceId


class Refused(NamedTuple):
    """One rule that said no; *value* and *limit* are texts for people."""

    code: str
    """CamelCase and stable, such as `MemoryInsufficient`: tests match on it."""
    value: str = ""
    limit: str = ""

    def __str__(self) -> str:
        return ", ".join(part for part in (self.value, self.limit) if part)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceVerdict:
    """The first rule that refused *device* of *node* to *request* of *claim*."""

    node: str
    claim: ObjectKey
    request: str
    """Empty where the whole claim, or the whole node, was refused."""
    device: DeviceId | None
    """`None` where no single device is to blame; without a device name for a whole pool."""
    refused: Refused


@dataclass(slots=True)
class Notebook:
    """Collects verdicts of one attempt on one node."""

    node: str
    _noted: dict[tuple[ObjectKey, str, DeviceId | None], Refused] = field(default_factory=dict)

    def note(
        self, claim: ObjectKey, request: str, device: DeviceId | None, refused: Refused
    ) -> None:
        """Keep *refused* unless an earlier rule has refused the same."""
        self._noted.setdefault((claim, request, device), refused)

    def verdicts(self) -> tuple[DeviceVerdict, ...]:
        """Return what was noted, in the order in which it came up."""
        return tuple(
            DeviceVerdict(
                node=self.node, claim=claim, request=request, device=device, refused=refused
            )
            for (claim, request, device), refused in self._noted.items()
        )


def capacity_code(name: str, suffix: str) -> str:
    """Return a code that starts with the name of a capacity: `memory` gives `Memory...`."""
    bare = name.rpartition("/")[2]
    return f"{bare[:1].upper()}{bare[1:]}{suffix}"
