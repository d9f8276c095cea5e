"""What a node registers of one vendor's devices, in whichever form that vendor's plugin writes it.

One device that cannot be read makes the whole annotation unreadable: a node of which a part is
known would be given pods whose devices are in the other part.
"""

from collections.abc import Sequence
from typing import Final

from hami import register_colon, register_enflame, register_json, register_metax
from hami.backends import Backend
from hami.devices import RegisteredDevice
from hami.reading import Undecodable, UnreadableError, decoded
from hami.requests import NVIDIA
from hami.vendor_rules.vendor import Register
from hami.wording import shown

SEPARATORS: Final = ",:;"
"""What stands between devices in the annotations of pods."""
_TYPE_ON_PODS: Final = "AMD"
"""Whose pods are annotated with the model; on all others' stands the common word."""


def decode_register(
    backend: Backend, text: str, *, node_name: str
) -> tuple[RegisteredDevice, ...] | Undecodable:
    """Return the devices in the order of the text, maybe none, or why it cannot be read.

    A device whose id is there twice, or could not be written on a pod, makes it unreadable too.
    """

    def read(text: str) -> tuple[RegisteredDevice, ...]:
        devices = _devices(backend, text, node_name)
        _check(devices)
        return devices

    return decoded(read, text)


def encode_register(backend: Backend, devices: Sequence[RegisteredDevice]) -> str:
    """Return the annotation as the vendor's plugin writes it, NVIDIA's as those since v2.8.

    Raises `ValueError` for what could not be read back, and where the vendor registers nothing.
    """
    _check(devices)
    match backend.register:
        case Register.COLON:
            return register_colon.write(devices)
        case Register.JSON:
            return register_json.write(devices)
        case Register.METAX:
            return register_metax.write(devices)
        case Register.ENFLAME:
            return register_enflame.write(devices)
        case Register.CAPACITY:
            raise _nothing(backend)


def _devices(backend: Backend, text: str, node_name: str) -> tuple[RegisteredDevice, ...]:
    word = backend.word
    match backend.register:
        case Register.JSON if word == NVIDIA and text.strip()[:1] != "[" and text != "null":
            return register_colon.read(text, word)
        case Register.JSON:
            return register_json.read(text, word)
        case Register.COLON:
            return register_colon.read(text, word)
        case Register.METAX:
            return register_metax.read(text, word)
        case Register.ENFLAME:
            return register_enflame.read(text, word, node_name)
        case Register.CAPACITY:
            raise _nothing(backend)


def _check(devices: Sequence[RegisteredDevice]) -> None:
    seen = set[str]()
    for device in devices:
        texts = (device.uuid, device.type) if device.word == _TYPE_ON_PODS else (device.uuid,)
        for text in texts:
            if any(sign in text for sign in SEPARATORS):
                message = f"`{shown(text)}` has one of `{SEPARATORS}` in it"
                raise UnreadableError(message)
        if device.uuid in seen:
            message = f"device `{shown(device.uuid)}` is there twice"
            raise UnreadableError(message)
        seen.add(device.uuid)


def _nothing(backend: Backend) -> UnreadableError:
    return UnreadableError(f"nodes register no {backend.word}; their capacity says what they have")
