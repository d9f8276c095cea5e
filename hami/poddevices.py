"""The annotations in which a pod's devices stand: who was given what, container by container.

A device is `UUID,type,MiB,cores` closed by `:`, a container its devices closed by `;`. Every
container has its place, init containers first, so a place is what says whose the devices are (HAMi
v2.10: `EncodePodDevices` and `DecodePodDevices` in `pkg/device/devices.go`). HAMi's plugin makes
the list of what it has yet to hand out one `;` longer with each call, and older schedulers filled
the place of a container without devices with a device without a name.
"""

from collections.abc import Iterable, Mapping

from hami.devices import PodDevice, Slots
from hami.reading import INT32_MAX, Undecodable, UnreadableError, decoded, integer, unreadable
from hami.wording import shown

_FIELDS = 4
_NO_DEVICE = ["", "", "0", "0"]


def decode_pod_devices(text: str, containers: int | None) -> Slots | Undecodable:
    """Return what each of *containers* was given, or why it cannot be read.

    An empty text gives nobody anything. Any other has a place for each container; more are empty
    or unreadable. Without a number of containers the text's own is taken.
    """
    return decoded(lambda text: _fitted(_slots(text), containers), text)


def decode_all(
    annotations: Mapping[str, str], keys: Mapping[str, str], containers: int | None
) -> dict[str, Slots] | Undecodable:
    """Read all vendors' lists of a pod; *keys* are annotations by HAMi's common word.

    A word without its annotation is not in the answer. One list that cannot be read makes all of
    them unreadable, and the reason names its key.
    """
    found = dict[str, Slots]()
    for word, key in keys.items():
        if key in annotations:
            slots = decode_pod_devices(annotations[key], containers)
            if isinstance(slots, Undecodable):
                return Undecodable(f"{key}: {slots}")
            found[word] = slots
    return found


def encode_pod_devices(slots: Slots) -> str:
    """Return the annotation; raises `ValueError` for a text that has a separator in it."""
    return "".join(f"{_container(devices)};" for devices in slots)


def _slots(text: str) -> Slots:
    if not text:
        return ()
    return tuple(map(_devices, text.removesuffix(";").split(";")))


def _fitted(slots: Slots, containers: int | None) -> Slots:
    if containers is None or len(slots) == containers:
        return slots
    if not slots:
        return ((),) * containers
    if len(slots) < containers or any(slots[containers:]):
        message = f"has {len(slots)} places for {containers} containers"
        raise UnreadableError(message)
    return slots[:containers]


def _devices(text: str) -> tuple[PodDevice, ...]:
    if not text:
        return ()
    found = (_device(segment) for segment in text.split(":") if segment)
    return tuple(device for device in found if device)


def _device(segment: str) -> PodDevice | None:
    """Return a device, or `None` for the filling of an empty place; HAMi skips further fields."""
    fields = segment.split(",")
    if len(fields) < _FIELDS:
        raise unreadable("device", segment, f"has {len(fields)} fields and not {_FIELDS}")
    uuid, kind, memory, cores = fields[:_FIELDS]
    if fields == _NO_DEVICE:
        return None
    if not uuid or not kind:
        raise unreadable("device", segment, f"has no {'type' if uuid else 'UUID'}")
    return PodDevice(
        uuid=uuid,
        type=kind,
        memory_mib=integer(memory, "memory", low=0, high=INT32_MAX),
        cores=integer(cores, "cores", low=0, high=INT32_MAX),
    )


def _container(devices: Iterable[PodDevice]) -> str:
    return "".join(map(_written, devices))


def _written(device: PodDevice) -> str:
    text = f"{device.uuid},{device.type},{device.memory_mib},{device.cores}"
    if text.count(",") != _FIELDS - 1 or ":" in text or ";" in text:
        message = f"`{shown(text)}` cannot be told apart"
        raise UnreadableError(message)
    return f"{text}:"
