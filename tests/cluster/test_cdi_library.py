"""Tests of the released CDI library against the verdicts that our own model is held to."""

import json
from pathlib import Path
from typing import Final

import pytest

from tests.cluster.assets import Assets
from tests.cluster.cdi_library import judge

_VERDICTS: Final = Path(__file__).parents[1] / "cdi" / "verdicts"
_DIFFERENCES: Final = Path(__file__).parent / "cdi_differences.json"


@pytest.mark.cluster
def test_released_library_agrees(assets: Assets) -> None:
    """The release judges each file as its newest sources do, but for the differences on record."""
    newest = json.loads(_VERDICTS.with_suffix(".json").read_text())
    differences = json.loads(_DIFFERENCES.read_text())
    wanted = {
        name: differences.get(name, {}).get("released", verdict["library"])
        for name, verdict in newest.items()
    }
    paths = sorted(_VERDICTS.glob("*.json"))
    released = {Path(verdict.path).stem: verdict.valid for verdict in judge(assets, paths)}
    assert released == {path.stem: wanted[path.stem] for path in paths}
    assert all(wanted[name] != newest[name]["library"] for name in differences)


@pytest.mark.cluster
def test_verdict_carries_devices_or_the_reason(assets: Assets, tmp_path: Path) -> None:
    """A file that loads is told with its devices, one that does not with why."""
    good, absent = _VERDICTS / "base.json", tmp_path / "absent.json"
    first, second = judge(assets, [good, absent])
    spec = json.loads(good.read_text())
    assert (first.kind, first.devices) == (
        spec["kind"],
        tuple(sorted(device["name"] for device in spec["devices"])),
    )
    assert not second.valid
    assert "no such file" in second.error
