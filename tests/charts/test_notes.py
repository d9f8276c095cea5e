"""What helm says after an install: what is there, what to try, what is missing, and no secret."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.charts.apiserver import install
from tests.charts.official import violations


def _notes(
    folder: Path, values: Mapping[str, Any], *, release: str = "1.37.2", helm: int = 4
) -> str:
    return install(folder, [], values, release=release, helm=helm).rpartition("NOTES:\n")[2]


@pytest.mark.parametrize("helm", [3, 4])
@pytest.mark.parametrize(
    ("mode", "release"),
    [("auto", "1.37.2"), ("auto", "1.34.1"), ("dra", "1.36.0"), ("hami", "1.25.3")],
)
def test_notes_are_one_screen(tmp_path: Path, mode: str, release: str, helm: int) -> None:
    """They name what was installed where, and how to look whether it works, without any key."""
    notes = _notes(tmp_path, {"mode": mode}, release=release, helm=helm)
    assert len(notes.splitlines()) <= 50
    assert max(map(len, notes.splitlines())) <= 120
    assert "gpuslice-node-agent" in notes
    assert "gpuslice doctor --namespace gpuslice-system" in notes
    assert ("gpuslice-scheduler" in notes) is (mode == "hami" or release.startswith("1.34"))
    assert "<no value>" not in notes
    assert not {"BEGIN", "tls.key", "ca.crt"} & set(notes.split())


_LIBRARY: Final = {"library": {"image": {"repository": "hami-core", "tag": "2.8.2"}}}


@pytest.mark.parametrize(
    ("values", "minor", "asks"),
    [
        ({"mode": "dra"}, 37, "deviceClassName: gpu.gpuslice.io"),
        ({"mode": "dra", **_LIBRARY}, 37, "deviceClassName: share.gpuslice.io"),
        ({"mode": "dra", **_LIBRARY}, 35, "deviceClassName: gpu.gpuslice.io"),
        ({"mode": "dra", "resourceApiVersion": "v1beta1"}, 33, "{name: gpu, deviceClassName"),
        ({"mode": "hami"}, 33, 'nvidia.com/gpu: "1"}'),
        ({"mode": "hami", **_LIBRARY}, 33, 'nvidia.com/gpumem: "1024"}'),
        ({"mode": "auto", **_LIBRARY}, 35, 'nvidia.com/gpumem: "1024"}'),
        (
            {
                "mode": "hami",
                "deviceConfig": {"sections": {"nvidia": {"resourceCountName": "example.com/gpu"}}},
            },
            33,
            'example.com/gpu: "1"}',
        ),
    ],
)
def test_what_is_to_be_tried_can_be_applied(
    tmp_path: Path, values: dict[str, Any], minor: int, asks: str
) -> None:
    """The pod and its claim are objects that this release takes, and ask for what there is."""
    notes = _notes(tmp_path, values, release=f"1.{minor}.0")
    text = notes.partition("<<'END'\n")[2].partition("  END\n")[0]
    objects = list(yaml.safe_load_all("\n".join(line[2:] for line in text.splitlines())))
    assert objects[-1]["kind"] == "Pod"
    assert [line for each in objects for line in violations(each, minor)] == []
    assert asks in text


@pytest.mark.parametrize(
    ("values", "release", "said"),
    [
        ({}, "1.37.2", "No library.image"),
        ({"mode": "dra"}, "1.34.0", "DRAConsumableCapacity"),
        ({}, "1.35.0", "shares by HAMi's protocol"),
        ({"mode": "hami"}, "1.29.0", "no admission policies"),
        ({"webhook": {"enabled": False}}, "1.37.2", "not turned into claims"),
        ({"mode": "hami", "webhook": {"enabled": False}}, "1.30.0", "set schedulerName themselves"),
        ({"kubeletPlugin": {"enabled": False}}, "1.37.2", "nobody offers GPUs"),
        ({"gpuResourcesEnabledOverride": True}, "1.37.2", "other owners of GPUs"),
    ],
)
def test_what_is_missing_is_said(
    tmp_path: Path, values: dict[str, Any], release: str, said: str
) -> None:
    """Each thing that will not work says so at once, and why."""
    assert said in _notes(tmp_path, values, release=release)


def test_nothing_is_missing_where_all_is_there(tmp_path: Path) -> None:
    """With a library on a release that keeps shares there is nothing to say."""
    assert "What is missing" not in _notes(tmp_path, _LIBRARY)


def test_nobody_waits_for_agents_that_are_not_installed(tmp_path: Path) -> None:
    """What is to be looked at is there."""
    assert "daemonset/" in _notes(tmp_path, {})
    assert "daemonset/" not in _notes(tmp_path, {"kubeletPlugin": {"enabled": False}})
