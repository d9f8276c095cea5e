"""CDI documents: our own, those of other vendors, and what NVIDIA's generator writes.

What is read is written and read again: a document that changes its meaning on the way would give
a container other devices than were checked.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from cdi.claim import claim_spec
from cdi.delegate import Generated, Generator, adapted
from cdi.errors import DelegateError, SpecError
from cdi.spec import Spec, canonical, render
from gpu.refusal import RefusedError
from tests.dra.builders import UID
from tests.fuzz.claims import decide
from tests.fuzz.mutation import spoiled_text
from tests.fuzz.node import CLAIMS
from tests.fuzz.running import expect

_MPS: Final = "/tmp/nvidia-mps"  # noqa: S108 - NVIDIA's name, to be kept out
_UUID: Final = "GPU-00000000-0000-4000-8000-000000000000"


def _generated() -> dict[str, Any]:
    """Return a document in the form of the generator's: numbers of nodes, no types, all names."""
    hook = {
        "hookName": "createContainer",
        "path": "/usr/bin/nvidia-cdi-hook",
        "args": ["nvidia-cdi-hook", "update-ldcache", "--folder", "/usr/lib64"],
        "env": ["NVIDIA_CTK_DEBUG=false"],
    }
    options = ["ro", "nosuid", "nodev", "rbind", "rprivate"]
    library = {
        "hostPath": "/driver/usr/lib64/libcuda.so.580.65.06",
        "containerPath": "/usr/lib64/libcuda.so.580.65.06",
        "options": options,
    }
    mps = {"hostPath": _MPS, "containerPath": _MPS}
    nodes = [{"path": "/dev/nvidiactl", "hostPath": "/driver/dev/nvidiactl", "major": 195}]
    device = {"path": "/dev/nvidia0", "major": 195, "minor": 0, "fileMode": 438, "uid": 0}
    return {
        "cdiVersion": "0.5.0",
        "kind": "k8s.gpuslice.io/claim",
        "devices": [
            {"name": _UUID, "containerEdits": {"deviceNodes": [device]}},
            {"name": "all", "containerEdits": {"deviceNodes": [device]}},
        ],
        "containerEdits": {
            "env": ["NVIDIA_VISIBLE_DEVICES=void"],
            "deviceNodes": nodes,
            "hooks": [hook],
            "mounts": [library, mps],
        },
    }


def _foreign() -> dict[str, Any]:
    """Return a document that uses what the newest version of the specification has."""
    rdt = {"closID": "group", "schemata": ["L3:0=ff"], "enableMonitoring": True}
    edits = {
        "env": ["A=b"],
        "intelRdt": rdt,
        "additionalGids": [1, 2],
        "netDevices": [{"hostInterfaceName": "eth1", "name": "net1"}],
        "mounts": [{"hostPath": "/a", "containerPath": "/b", "type": "bind"}],
    }
    return {
        "cdiVersion": "1.1.0",
        "kind": "vendor.example.com/net",
        "annotations": {"a.example.com/key": "value"},
        "devices": [{"name": "0", "annotations": {"k": "v"}, "containerEdits": edits}],
    }


def _documents() -> tuple[dict[str, Any], ...]:
    ours = (json.loads(decide(json.dumps(CLAIMS[index]).encode())[1]) for index in (0, 5, 7))
    return (_generated(), _foreign(), *ours)


@dataclass(frozen=True, slots=True)
class CdiFiles:
    """Documents near valid ones."""

    read: Callable[[bytes], Spec] = field(default=Spec.parse)
    name: str = "cdi-files"
    weight: int = 6
    _documents: tuple[dict[str, Any], ...] = field(default_factory=_documents)

    def make(self, rng: Random) -> bytes:
        """Return a document's JSON."""
        return spoiled_text(rng, rng.choice(self._documents), donor=rng.choice(self._documents))

    def check(self, sample: bytes) -> bool:
        """Read, write and read again; what is refused is refused by an error that can be sent."""
        try:
            found = self.read(sample)
        except SpecError as error:
            str(error).encode(errors="strict")
            return False
        expect(self.read(sample) == found, "another answer the second time")
        written = render(found)
        again = self.read(written)
        expect(again == canonical(found), "another meaning after it was written")
        expect(render(again) == written, "other bytes the second time")
        _expect_names(found, sample)
        return True

    def close(self) -> None:
        """Do nothing: nothing is held."""


def _expect_names(found: Spec, sample: bytes) -> None:
    document = {key.casefold(): value for key, value in json.loads(sample).items()}
    names = [
        {key.casefold(): value for key, value in device.items()}.get("name")
        for device in document.get("devices", ())
    ]
    wanted = [name for name in names if isinstance(name, str)]
    texts = [device.name for device in found.devices]
    expect(len(texts) == len(names), "a device is lost")
    expect(set(wanted) <= set(texts), f"other devices: {texts}")


def delegated(document: bytes) -> Generated:
    """Return what is made of *document* when NVIDIA's generator wrote it."""
    return adapted(Generator(local_root="/driver", host_root="/run/driver"), document, [_UUID])


@dataclass(frozen=True, slots=True)
class GeneratedFiles:
    """Documents near those of NVIDIA's generator, up to the spec of a claim."""

    read: Callable[[bytes], Generated] = field(default=delegated)
    name: str = "nvidia-ctk"
    weight: int = 6

    def make(self, rng: Random) -> bytes:
        """Return a document's JSON."""
        return spoiled_text(rng, _generated(), donor=_foreign())

    def check(self, sample: bytes) -> bool:
        """Take its edits and put them into a claim, or say what is wrong with it."""
        try:
            found = self.read(sample)
        except DelegateError as error:
            str(error).encode()
            return False
        edits = [found.common, *found.devices.values()]
        for node in (node for each in edits for node in each.device_nodes):
            expect(node.type and node.major, f"a node without numbers: {node.path}")
        for mount in (mount for each in edits for mount in each.mounts):
            expect(mount.container_path != _MPS, "the host's MPS directory")
        expect(self.read(sample) == found, "another answer the second time")
        try:
            spec = render(
                claim_spec(UID, common=found.common, devices={f"{UID}-a": found.devices[_UUID]})
            )
        except (SpecError, RefusedError):
            return False
        expect(render(Spec.parse(spec)) == spec, "a file that the runtime reads otherwise")
        return True

    def close(self) -> None:
        """Do nothing: nothing is held."""
