"""The forms in which kubelet, or a container runtime, is told of a container's GPUs.

NVIDIA's runtime reads a variable, or the mounts of `/dev/null` that an image cannot forge; every
runtime with CDI takes names, in the answer or as annotations. Several may be used at once; where
all of them are CDI's, nothing is said in another form (NVIDIA: k8s-device-plugin,
`internal/plugin/server.go`). Names are of a kind of our own: the toolkit's belongs to it.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Literal

from cdi.cardspec import CardEdits, card_name, edits_of
from gpu.refusal import Refusal, RefusedError
from hami.devices import PodDevice, RegisteredDevice
from protos import deviceplugin_v1beta1_pb2 as api

VISIBLE: Final = "NVIDIA_VISIBLE_DEVICES"
VOLUMES: Final = "/var/run/nvidia-container-devices"
_DRI: Final = "/dev/dri/"


class ListStrategy(StrEnum):
    """One form."""

    ENVVAR = "envvar"
    VOLUME_MOUNTS = "volume-mounts"
    CDI_ANNOTATIONS = "cdi-annotations"
    CDI_CRI = "cdi-cri"

    @property
    def is_cdi(self) -> bool:
        """Whether it names devices of a CDI spec."""
        return self in {ListStrategy.CDI_ANNOTATIONS, ListStrategy.CDI_CRI}


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseForm:
    """What an administrator has chosen."""

    strategies: frozenset[ListStrategy] = frozenset({ListStrategy.ENVVAR})
    ids: Literal["uuid", "index"] = "uuid"
    """What GPUs are called outside of CDI; an index is NVML's."""
    pass_device_specs: bool = False
    gdrcopy: bool = False
    gds: bool = False
    mofed: bool = False
    cdi_annotation_prefix: str = "cdi.k8s.io/"

    def __post_init__(self) -> None:
        if not self.strategies:
            raise _refused("deviceListStrategy", "", "one or more forms have to be chosen")
        extras = [name for name, is_on in self._extras() if is_on]
        if extras and not self.is_plain:
            limit = "NVIDIA's runtime adds it, which CDI leaves out"
            raise _refused("deviceListStrategy", extras[0].lower(), limit)

    @property
    def uses_cdi(self) -> bool:
        """Whether the node's CDI spec is needed."""
        return any(each.is_cdi for each in self.strategies)

    @property
    def is_plain(self) -> bool:
        """Whether anything is said in a form that is not CDI's."""
        return not all(each.is_cdi for each in self.strategies)

    @property
    def needs_edits(self) -> bool:
        """Whether it matters what is known of the driver's files and device nodes."""
        return self.uses_cdi or (self.is_plain and self.pass_device_specs)

    def variables(self) -> dict[str, str]:
        """Return the variables that ask NVIDIA's runtime for more than GPUs."""
        return {f"NVIDIA_{name}": "enabled" for name, is_on in self._extras() if is_on}

    def _extras(self) -> tuple[tuple[str, bool], ...]:
        return (("GDRCOPY", self.gdrcopy), ("GDS", self.gds), ("MOFED", self.mofed))


def say_devices(
    answer: api.ContainerAllocateResponse,
    form: ResponseForm,
    devices: Sequence[PodDevice],
    *,
    cards: Mapping[str, RegisteredDevice],
    edits: CardEdits | None,
) -> None:
    """Add *devices*, each of which is there once, to *answer* in all ways of *form*."""
    uuids = [device.uuid for device in devices]
    if form.is_plain:
        _say_plainly(answer, form, [_id(form, uuid, cards) for uuid in uuids])
    if form.needs_edits and edits is not None:
        for uuid in uuids:
            # What cannot be had is refused in whichever form.
            edits_of(edits, uuid)
        if form.is_plain and form.pass_device_specs:
            _say_nodes(answer, uuids, edits)
    names = [card_name(uuid) for uuid in uuids] if form.uses_cdi else []
    if ListStrategy.CDI_ANNOTATIONS in form.strategies:
        joined = ",".join(names)
        number = hashlib.sha256(joined.encode()).hexdigest()[:16]
        answer.annotations[f"{form.cdi_annotation_prefix}gpuslice_{number}"] = joined
    if ListStrategy.CDI_CRI in form.strategies:
        answer.cdi_devices.extend(api.CDIDevice(name=name) for name in names)


def _say_plainly(
    answer: api.ContainerAllocateResponse, form: ResponseForm, ids: Sequence[str]
) -> None:
    if ListStrategy.ENVVAR in form.strategies:
        answer.envs[VISIBLE] = ",".join(ids)
    if ListStrategy.VOLUME_MOUNTS in form.strategies:
        answer.envs[VISIBLE] = VOLUMES
        answer.mounts.extend(
            api.Mount(host_path="/dev/null", container_path=f"{VOLUMES}/{each}", read_only=True)
            for each in ids
        )
    for name, value in form.variables().items():
        answer.envs[name] = value


def _say_nodes(
    answer: api.ContainerAllocateResponse, uuids: Sequence[str], edits: CardEdits
) -> None:
    parts = (edits.common, *(edits_of(edits, uuid) for uuid in uuids))
    nodes = {node.path: node for part in parts for node in part.device_nodes}
    answer.devices.extend(
        api.DeviceSpec(
            container_path=path,
            host_path=node.host_path or path,
            permissions=node.permissions or "rw",
        )
        for path, node in nodes.items()
        if not path.startswith(_DRI)
    )


def _id(form: ResponseForm, uuid: str, cards: Mapping[str, RegisteredDevice]) -> str:
    card = cards.get(uuid)
    # A partition has no index of its own.
    if form.ids == "uuid" or card is None or uuid.startswith("MIG-"):
        return uuid
    return str(card.index)


def _refused(field: str, value: str, limit: str) -> RefusedError:
    return RefusedError(Refusal(code="ResponseFormInvalid", field=field, value=value, limit=limit))
