"""An agent of this version over the state of another one, while the claims are in use."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.agent.control_plane import Claim
from tests.agent.host import held
from tests.agent.scene import Scene
from tests.dra import recorded_states
from tests.dra.recorded_states import STATES, Change, JsonObject, unchanged, with_added_fields
from tests.patience import eventually


@dataclass(frozen=True, slots=True)
class Running:
    """A claim of the recorded state, as this node has it."""

    claim: Claim
    answer: bytes
    spec: bytes


def put_in_place(stage: Scene, recorded: Path, change: Change) -> list[Running]:
    """Make *stage* the node of a *recorded* state, and return the claims that are prepared."""
    host = stage.host
    node = recorded_states.read(recorded, "node.json")
    claims = {name: _create(stage, entry["claim"]) for name, entry in node["claims"].items()}
    now = {
        entry["claim"]["metadata"]["uid"]: claims[name].uid
        for name, entry in node["claims"].items()
    }
    now[node["librarySha256"]] = hashlib.sha256(host.library.read_bytes()).hexdigest()
    now["@ROOT@"] = str(host.root)

    def adapted(value: bytes) -> bytes:
        for old, new in now.items():
            value = value.replace(old.encode(), new.encode())
        return value

    recorded_states.put(recorded, host.state, _adapting(adapted, change))
    running = [
        Running(
            claims[name],
            adapted(bytes.fromhex(entry["answer"])),
            adapted(entry["spec"].encode()),
        )
        for name, entry in node["claims"].items()
        if "answer" in entry
    ]
    host.cdi.mkdir()
    for each in running:
        host.spec(each.claim.uid).write_bytes(each.spec)
    return running


def _create(stage: Scene, recorded: JsonObject) -> Claim:
    devices = recorded["status"]["allocation"]["devices"]
    return stage.control.claim(
        *devices["results"],
        name=recorded["metadata"]["name"],
        configs=devices.get("config", []),
    )


def _adapting(adapted: Callable[[bytes], bytes], change: Change) -> Change:
    def both(record: JsonObject) -> JsonObject:
        found: JsonObject = json.loads(adapted(json.dumps(record).encode()))
        return change(found)

    return both


@pytest.mark.parametrize("recorded", STATES, ids=lambda path: path.name)
@pytest.mark.parametrize("change", [unchanged, with_added_fields])
def test_claims_run_on_over_a_change_of_the_version(
    stage: Scene, recorded: Path, change: Change
) -> None:
    """Answers are byte-equal, specs are not touched, and all of them can be unprepared."""
    running = put_in_place(stage, recorded, change)
    files = {path: path.stat().st_mtime_ns for path in stage.host.cdi.iterdir()}
    # Leftovers are removed after all claims were looked at.
    stage.host.spec("left-over").write_text("{}", encoding="utf-8")

    agent = stage.started()
    eventually(lambda: not stage.host.spec("left-over").exists())

    assert {path: path.stat().st_mtime_ns for path in files} == files
    assert not [each for each in agent.log() if each["event"] == "claim restored"]
    limited = {each.claim.uid for each in running if b"libvgpu.so" in each.spec}
    whole = frozenset(each.claim.uid for each in running) - limited
    assert len(limited) >= 3
    assert whole
    eventually(lambda: stage.host.holdings() == held(*limited, whole=whole))
    for each in running:
        assert stage.kubelet.prepare(each.claim).SerializeToString() == each.answer
        assert stage.host.spec(each.claim.uid).read_bytes() == each.spec
    for each in running:
        assert stage.kubelet.unprepare(each.claim) == ""
    assert stage.host.holdings() == held()
