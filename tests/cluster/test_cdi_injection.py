"""Tests of the simulated runtime against the released CDI library, device by device."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from tests.cluster.assets import Assets
from tests.cluster.cdi_library import Container, inject
from tests.cluster.cdi_odd_specs import odd_containers
from tests.cluster.cdi_recording import library_answers, release
from tests.cluster.cdi_scene_specs import HOOKS, scene_specs
from tests.sim.runtime.cdi_cases import qualified
from tests.sim.runtime.cdi_record import FILE, read
from tests.sim.runtime.oci import Answer, answer

_GOLDEN: Final = Path(__file__).parents[1] / "cdi" / "golden"
_ENV: Final = {"env": ["NVIDIA_VISIBLE_DEVICES=all", "PATH=/bin"]}


def each_way(root: Path, text: str) -> list[Container]:
    """Return containers that ask for all devices of a spec, for one, for all twice, for others."""
    root.mkdir(parents=True)
    (root / "claim.json").write_text(text, encoding="utf-8")
    devices = qualified(text)
    asked = (devices, devices[:1], devices * 2, devices[::-1], (*devices, "vendor.com/class=no"))
    return [Container(directories=(root,), devices=each, start=_ENV) for each in asked]


def ours(containers: Sequence[Container]) -> list[Answer]:
    """Return what the simulated runtime makes of *containers* on this host."""
    return [
        answer(one.directories, one.devices, host_root=Path("/"), start=one.start)
        for one in containers
    ]


@pytest.mark.cluster
@pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="its nodes would complete the devices")
def test_the_record_is_what_the_library_does(assets: Assets, tmp_path: Path) -> None:
    """The answers that the simulated runtime is held to are those of the release that is named."""
    assert json.loads(FILE.read_text())["library"] == release()
    assert library_answers(assets.path("cdicheck"), tmp_path) == read()


@pytest.mark.cluster
def test_claims_on_every_board_come_out_as_the_library_does_it(
    assets: Assets, tmp_path: Path
) -> None:
    """All boards, hooks and shapes of claim give the containers that engines would make."""
    specs = dict(scene_specs(tmp_path / "nodes"))
    for path in _GOLDEN.glob("*.json"):
        specs[path.stem] = path.read_bytes()
    assert len(specs) >= 9 * len(HOOKS) * 5
    containers = [
        container
        for number, text in enumerate(specs.values())
        for container in each_way(tmp_path / str(number), text.decode())
    ]
    library = inject(assets.path("cdicheck"), containers)
    assert ours(containers) == library
    made = [one.container for one in library if one.container is not None]
    assert len(made) == 4 * len(specs)
    assert {len(one.get("devices", ())) > 1 for one in made} == {True}


@pytest.mark.cluster
def test_odd_specs_come_out_as_the_library_does_it(assets: Assets, tmp_path: Path) -> None:
    """What is nearly a good spec is refused, or means the same, in both."""
    containers = list(odd_containers(tmp_path, seed=1, count=1500))
    library = inject(assets.path("cdicheck"), containers)
    wrong = [
        ((one.directories[0] / "a.json").read_text()[:2000], mine, theirs)
        for one, mine, theirs in zip(containers, ours(containers), library, strict=True)
        if mine != theirs
    ]
    assert wrong == []
    assert sum(one.container is not None for one in library) > 200
    assert sum(bool(one.refused) for one in library) > 200
