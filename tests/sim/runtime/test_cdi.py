"""Spec directories: which files count, which device wins, and what one bad file costs."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from sim.runtime.cdi import Registry, resolve, scan
from sim.runtime.errors import UnresolvableDevicesError

STATIC, DYNAMIC = "etc/cdi", "var/run/cdi"


def spec(*names: str, tag: str = "x", kind: str = "vendor.com/class") -> dict[str, Any]:
    """Return a spec whose devices and common edits carry *tag* in their environment."""
    return {
        "cdiVersion": "0.5.0",
        "kind": kind,
        "containerEdits": {"env": [f"COMMON={tag}"]},
        "devices": [
            {"name": name, "containerEdits": {"env": [f"DEVICE={tag}-{name}"]}} for name in names
        ],
    }


def put(root: Path, name: str, document: object) -> Path:
    """Write *document* below *root* in the format that the name tells."""
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    text = document if isinstance(document, str) else json.dumps(document)
    if not isinstance(document, str) and path.suffix == ".yaml":
        text = yaml.safe_dump(document)
    path.write_text(text, encoding="utf-8")
    return path


def look(root: Path) -> Registry:
    """Scan both directories of *root*."""
    return scan([root / STATIC, root / DYNAMIC])


def env(registry: Registry, *names: str) -> list[str]:
    """Return all environment entries for *names* in order."""
    return [entry for edits in resolve(registry, names) for entry in edits.env]


def test_missing_directories_hold_no_devices(tmp_path: Path) -> None:
    """A node without CDI directories is no error."""
    registry = look(tmp_path)
    assert registry.devices == {}
    assert registry.errors == {}


@pytest.mark.parametrize("name", ["a.json", "a.yaml", ".hidden.json", "any-name.json"])
def test_json_and_yaml_files_are_read(tmp_path: Path, name: str) -> None:
    """JSON and YAML count, whatever stands before the extension."""
    put(tmp_path, f"{DYNAMIC}/{name}", spec("dev0"))
    assert list(look(tmp_path).devices) == ["vendor.com/class=dev0"]


@pytest.mark.parametrize("name", ["a.yml", "a.json.tmp", "a.txt", "sub/a.json"])
def test_other_files_are_not_read(tmp_path: Path, name: str) -> None:
    """Other extensions and sub-directories are ignored without an error."""
    put(tmp_path, f"{DYNAMIC}/{name}", json.dumps(spec("dev0")))
    registry = look(tmp_path)
    assert registry.devices == {}
    assert registry.errors == {}


def test_the_higher_directory_wins_silently(tmp_path: Path) -> None:
    """A dynamic device hides a static one of the same name."""
    put(tmp_path, f"{STATIC}/a.json", spec("dev0", "only", tag="static"))
    put(tmp_path, f"{DYNAMIC}/a.json", spec("dev0", tag="dynamic"))
    registry = look(tmp_path)
    assert registry.errors == {}
    assert env(registry, "vendor.com/class=dev0") == ["COMMON=dynamic", "DEVICE=dynamic-dev0"]
    assert env(registry, "vendor.com/class=only") == ["COMMON=static", "DEVICE=static-only"]


def test_a_conflict_takes_the_device_away(tmp_path: Path) -> None:
    """Two files of one directory that name one device take it from everybody, static or not."""
    put(tmp_path, f"{STATIC}/a.json", spec("dev0", tag="static"))
    one = put(tmp_path, f"{DYNAMIC}/a.json", spec("dev0", "left"))
    two = put(tmp_path, f"{DYNAMIC}/b.json", spec("dev0", "right"))
    registry = look(tmp_path)
    assert sorted(registry.devices) == ["vendor.com/class=left", "vendor.com/class=right"]
    assert set(registry.errors) == {one, two}
    assert "conflicting device" in registry.errors[one][0]


@pytest.mark.parametrize(
    "broken",
    ["", "{", "[]", '"text"', '{"cdiVersion": "0.5.0"}', json.dumps(spec("bad/name"))],
)
def test_a_broken_file_loses_only_itself(tmp_path: Path, broken: str) -> None:
    """One unusable file leaves the others in use."""
    bad = put(tmp_path, f"{DYNAMIC}/bad.json", broken)
    put(tmp_path, f"{DYNAMIC}/good.json", spec("dev0"))
    registry = look(tmp_path)
    assert list(registry.errors) == [bad]
    assert list(registry.devices) == ["vendor.com/class=dev0"]


def test_broken_yaml_loses_only_itself(tmp_path: Path) -> None:
    """The same holds for YAML."""
    bad = put(tmp_path, f"{DYNAMIC}/bad.yaml", "a: [")
    assert list(look(tmp_path).errors) == [bad]


def test_files_may_share_a_kind(tmp_path: Path) -> None:
    """Common edits of a file go with its own devices only, once each."""
    put(tmp_path, f"{DYNAMIC}/a.json", spec("dev0", "dev1", tag="a"))
    put(tmp_path, f"{DYNAMIC}/b.json", spec("dev2", tag="b"))
    names = [f"vendor.com/class=dev{number}" for number in (0, 2, 1)]
    assert env(look(tmp_path), *names) == [
        "COMMON=a",
        "DEVICE=a-dev0",
        "COMMON=b",
        "DEVICE=b-dev2",
        "DEVICE=a-dev1",
    ]


def test_a_repeated_name_repeats_device_edits_only(tmp_path: Path) -> None:
    """A device asked for twice applies its edits twice and the common ones once."""
    put(tmp_path, f"{DYNAMIC}/a.json", spec("dev0", tag="a"))
    name = "vendor.com/class=dev0"
    assert env(look(tmp_path), name, name) == ["COMMON=a", "DEVICE=a-dev0", "DEVICE=a-dev0"]


def test_unknown_devices_are_named(tmp_path: Path) -> None:
    """All names without a definition are in the error."""
    put(tmp_path, f"{DYNAMIC}/a.json", spec("dev0"))
    names = ["vendor.com/class=no", "vendor.com/class=dev0", "other.com/class=dev0"]
    with pytest.raises(
        UnresolvableDevicesError,
        match=r"^unresolvable CDI devices vendor.com/class=no, other.com/class=dev0$",
    ):
        resolve(look(tmp_path), names)
