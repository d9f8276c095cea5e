"""The version a spec has to declare: the lowest that has what it uses, never the newest.

A runtime accepts only versions that its vendored library knows, and one unknown field rejects
the whole file; so a spec declares as little as it can (CDI: specs-go/version.go). 0.8.0 and
1.0.0 changed only the library's Go interface and are never needed.
"""

from collections.abc import Mapping
from typing import Final, Protocol

from cdi.edits import ContainerEdits

KNOWN: Final = (
    "0.1.0",
    "0.2.0",
    "0.3.0",
    "0.4.0",
    "0.5.0",
    "0.6.0",
    "0.7.0",
    "0.8.0",
    "1.0.0",
    "1.1.0",
)
LOWEST_EMITTED: Final = "0.5.0"
"""What we declare at least: device names made of a claim's UID may begin with a digit."""


class HasContent(Protocol):
    """What a spec and a device have in common here."""

    @property
    def annotations(self) -> Mapping[str, str]:
        """Free texts by key."""

    @property
    def container_edits(self) -> ContainerEdits:
        """What is done to the container."""


class HasName(HasContent, Protocol):
    """A device."""

    @property
    def name(self) -> str:
        """Name within the file."""


class HasDevices(HasContent, Protocol):
    """A spec."""

    @property
    def kind(self) -> str:
        """Vendor and class."""

    @property
    def devices(self) -> tuple[HasName, ...]:
        """The devices of the file."""


def rank(version: str) -> int | None:
    """Return where *version* stands among the known ones; None if no library knows it."""
    plain = version.removeprefix("v")
    return KNOWN.index(plain) if plain in KNOWN else None


def newest(*versions: str) -> str:
    """Return the highest of known *versions*."""
    return max(versions, key=KNOWN.index)


def _of_edits(edits: ContainerEdits) -> str:
    rdt = edits.intel_rdt
    if edits.net_devices or (rdt and (rdt.schemata is not None or rdt.enable_monitoring)):
        return "1.1.0"
    if rdt is not None or edits.additional_gids:
        return "0.7.0"
    if any(node.host_path for node in edits.device_nodes):
        return "0.5.0"
    if any(mount.type for mount in edits.mounts):
        return "0.4.0"
    return "0.3.0"


def _of_content(part: HasContent) -> str:
    return newest("0.6.0" if part.annotations else "0.3.0", _of_edits(part.container_edits))


def _of_device(device: HasName) -> str:
    named = "0.5.0" if device.name[:1].isdigit() else "0.3.0"
    return newest(named, _of_content(device))


def minimum_version(spec: HasDevices) -> str:
    """Return the lowest version that *spec* may declare."""
    dotted = "0.6.0" if "." in spec.kind.partition("/")[2] else "0.3.0"
    return newest(dotted, _of_content(spec), *(_of_device(device) for device in spec.devices))
