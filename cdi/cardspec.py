"""The one file that names the node's GPUs to the runtime, for a device plugin.

Kubelet's device plugins answer before a container exists and name devices that are there already,
so all of the node's are in one file, written at the start and whenever they change. Limits are no
part of it: kubelet hands those on itself.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final, Protocol

from cdi.durable import Whole, remove, sweep_temporary, write_whole
from cdi.edits import ContainerEdits
from cdi.emit import check_emitted
from cdi.errors import SpecError, store_errors
from cdi.faults import FaultPoint
from cdi.names import VENDOR, is_device_name
from cdi.spec import Device, Spec, render
from cdi.version import KNOWN, LOWEST_EMITTED, minimum_version, newest
from gpu.model import GpuUuid
from gpu.refusal import Refusal, RefusedError

CARD_KIND: Final = f"{VENDOR}/card"

_FILE_NAME: Final = f"{VENDOR}-card.json"
_POINTS: Final = Whole(
    FaultPoint.SPEC_TEMPORARY_WRITTEN, FaultPoint.SPEC_WRITTEN, FaultPoint.CDI_DIRECTORY_MADE
)


class CardEdits(Protocol):
    """What containers need for each of the node's GPUs and MIG devices."""

    @property
    def common(self) -> ContainerEdits:
        """What comes with any of them."""

    @property
    def by_uuid(self) -> Mapping[GpuUuid, ContainerEdits | Refusal]:
        """What comes with each, or why it cannot be had."""


def card_name(uuid: str) -> str:
    """Return what kubelet hands to the runtime for *uuid*; RefusedError for no name of a device."""
    if not is_device_name(uuid):
        raise RefusedError(Refusal(code="DeviceNameInvalid", field="devices[].name", value=uuid))
    return f"{CARD_KIND}={uuid}"


def edits_of(edits: CardEdits, uuid: str) -> ContainerEdits:
    """Return the edits of one device; RefusedError where it has none."""
    found = edits.by_uuid.get(GpuUuid(uuid))
    if isinstance(found, Refusal):
        raise RefusedError(found)
    if found is None:
        raise RefusedError(
            Refusal(
                code="DeviceGone", field="devices", value=uuid, limit="the node has no such device"
            )
        )
    return found


def card_spec(edits: CardEdits) -> Spec | None:
    """Return the spec of all devices that have edits; None where none has.

    SpecError if the edits are not fit to be written.
    """
    devices = tuple(
        Device(name=uuid, container_edits=found)
        for uuid, found in sorted(edits.by_uuid.items())
        if isinstance(found, ContainerEdits)
    )
    if not devices:
        return None
    draft = Spec(
        cdi_version=KNOWN[-1], kind=CARD_KIND, container_edits=edits.common, devices=devices
    )
    version = newest(LOWEST_EMITTED, minimum_version(draft))
    return check_emitted(draft.model_copy(update={"cdi_version": version}))


class CardSpecStore:
    """The file in the runtime's CDI *directory*; used by several threads."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / _FILE_NAME
        self._rendered: tuple[CardEdits | None, bytes | None] = (None, None)

    @property
    def path(self) -> Path:
        """Where the file is, or would be."""
        return self._path

    def sweep_temporary(self) -> None:
        """Remove what writes that never finished left; before the first `ensure`. StoreError."""
        with store_errors(self._path):
            sweep_temporary(self._path.parent, _FILE_NAME)

    def ensure(self, edits: CardEdits) -> bool:
        """Have the file say *edits*; tell whether it had to be written.

        RefusedError if they are not fit to be written, StoreError if the file system fails.
        """
        content = self._render(edits)
        with store_errors(self._path):
            if content is None:
                self.remove()
                return False
            try:
                if self._path.read_bytes() == content:
                    return False
            except FileNotFoundError:
                pass
            write_whole(self._path, content, _POINTS)
        return True

    def remove(self) -> None:
        """Remove the file, so that no container can be given a GPU by it; StoreError."""
        with store_errors(self._path):
            remove(self._path, FaultPoint.SPEC_DELETED)

    def _render(self, edits: CardEdits) -> bytes | None:
        rendered_from, content = self._rendered
        if rendered_from is not edits:
            try:
                spec = card_spec(edits)
            except SpecError as error:
                refusal = Refusal(
                    code="SpecUnfit", field="driver files", value=CARD_KIND, limit=str(error)
                )
                raise RefusedError(refusal) from error
            content = None if spec is None else render(spec)
            self._rendered = (edits, content)
        return content
