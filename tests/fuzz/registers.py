"""What nodes register of all vendors' devices.

A register that is taken says the same as its text, read by other means; none that a plugin wrote is
refused.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from hami.annotations import Backend, Undecodable, backends, decode_register, encode_register
from hami.deviceconfig import DeviceConfig
from hami.devices import RegisteredDevice
from hami.vendor_rules.vendor import Register
from hami.vendors import from_sections
from tests.fuzz.mutation import spoiled_string, spoiled_text
from tests.fuzz.running import expect

Registered = tuple[RegisteredDevice, ...] | Undecodable
Reader = Callable[[Backend, str], Registered]

_NODE: Final = "node-1"
_BACKENDS: Final[Mapping[str, Backend]] = {
    each.word: each
    for each in backends(DeviceConfig(vendors=from_sections({}, ascend=True, iluvatar=True)))
}
_WORDS: Final = (
    "NVIDIA",
    "Ascend910B3",
    "AMD",
    "Vastai",
    "DCU",
    "MR-V100",
    "Metax-SGPU",
    "Enflame",
)
_PROFILE: Final = {
    "name": "1g.5gb",
    "memoryMB": 4864,
    "core": 15,
    "sliceCount": 1,
    "placements": [{"start": 0, "size": 1}, {"start": 6, "size": 1}],
}
_HAMI: Final = [
    {"id": "GPU-1", "count": 10, "devmem": 40960, "devcore": 100, "type": "A100", "health": True},
    {"id": "GPU-2", "index": 1, "devmem": 9, "numa": 1, "mode": "mig", "migProfiles": [_PROFILE]},
]
_METAX: Final = [
    {"uuid": "GPU-1", "totalDevCount": 16, "totalCompute": 100, "totalVRam": 65536, "linkZone": 1},
    {"uuid": "GPU-2", "healthy": True, "qosPolicy": "best-effort", "numa": 1},
]
_ENFLAME: Final = {
    "devices": [{"index": "0", "minor": "0", "capacity": 6}, {"index": "1", "capacity": "6"}],
    "profiles": {"1g.12gb": "0", "3g.36gb": "1"},
}
_COLON: Final = (
    "GPU-1,10,7680,100,NVIDIA-Tesla P4,0,true:",
    "GPU-1,10,7680,100,NVIDIA-Tesla P4,0,true,1,hami-core:GPU-2,1,2,3,x,1,false,2,mig:",
)
_DOCUMENTS: Final = {Register.JSON: _HAMI, Register.METAX: _METAX, Register.ENFLAME: _ENFLAME}


def _read(backend: Backend, text: str) -> Registered:
    return decode_register(backend, text, node_name=_NODE)


@dataclass(frozen=True, slots=True)
class Registers:
    """Texts near what plugins write."""

    read: Reader = field(default=_read)
    name: str = "registers"
    weight: int = 24

    def make(self, rng: Random) -> list[Any]:
        """Return a vendor's word, a text, and whether a plugin wrote it."""
        word = rng.choice(_WORDS)
        form = _BACKENDS[word].register
        if form is Register.COLON or (word == "NVIDIA" and rng.random() < 0.3):
            text = plain = rng.choice(_COLON)
            for _ in range(rng.choice((0, 1, 1, 2, 3))):
                text = spoiled_string(rng, text)
        else:
            plain = json.dumps(_DOCUMENTS[form])
            data = spoiled_text(rng, _DOCUMENTS[form])
            text = data.decode("utf-8", rng.choice(("replace", "surrogateescape")))
        return [word, text, text == plain]

    def check(self, sample: list[Any]) -> bool:
        """Compare with the text, and with what is read of what is written."""
        word, text, is_plain = sample
        backend = _BACKENDS[word]
        found = self.read(backend, text)
        expect(self.read(backend, text) == found, "another answer the second time")
        if isinstance(found, Undecodable):
            expect(not is_plain, f"a plugin's own is refused: {found}")
            expect(found.reason.isprintable(), "a reason that cannot be shown")
            return False
        said = _said(backend, text)
        got = [(each.uuid, each.memory_mib, each.count) for each in found]
        expect(got == said, f"other devices: {got} and not {said}")
        expect(len({each.uuid for each in found}) == len(found), "one device twice")
        for each in found:
            expect(not set(each.uuid) & set(",:;"), "an id that a pod could not have")
            expect(min(each.memory_mib, each.count, each.cores) >= 0, "less than nothing")
        if found:
            again = self.read(backend, encode_register(backend, found))
            expect(again == found, f"another value once written: {again}")
        return True

    def close(self) -> None:
        """Do nothing: nothing is held."""


def _said(backend: Backend, text: str) -> list[tuple[str, int, int]]:
    """Return id, memory and count of each device that *text* names."""
    is_old = backend.word == "NVIDIA" and text.strip()[:1] != "[" and text != "null"
    if is_old or backend.register is Register.COLON:
        parts = [row.split(",") for row in text.split(":") if row]
        return [(row[0], int(row[2]), int(row[1])) for row in parts]
    document = json.loads(text)
    match backend.register:
        case Register.METAX:
            names = ("uuid", "totalvram", "totaldevcount")
        case Register.ENFLAME:
            return _said_by_enflame(_lower(document))
        case _:
            names = ("id", "devmem", "count")
    rows = [_lower(each) for each in document or ()]
    return [(row[names[0]], row.get(names[1]) or 0, row.get(names[2]) or 0) for row in rows]


def _said_by_enflame(document: Mapping[str, Any]) -> list[tuple[str, int, int]]:
    memory = 0
    for name in document["profiles"]:
        size, _, rest = name.strip().lower().partition(".")
        number = rest.removesuffix("gb").strip()
        if size.rstrip("g").strip().isdecimal() and number.isdecimal() and int(size.rstrip("g")):
            memory = max(memory, int(number) * 1024)
    found = []
    for place, device in enumerate(map(_lower, document.get("devices") or ())):
        index = str(device.get("index") or "")
        number = int(index) if index.isascii() and index.isdecimal() else place
        found.append((f"{_NODE}-enflame-drs-{number}", memory, int(device["capacity"])))
    return found


def _lower(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {key.lower(): value for key, value in entry.items()}
