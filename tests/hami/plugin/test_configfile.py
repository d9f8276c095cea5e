"""Tests of how the file of a node configuration is followed."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from hami.deviceconfig import NvidiaConfig
from hami.nodeconfig import EffectiveConfig
from hami.plugin.configfile import ConfigFiles, NodeConfigKeeper
from kube.configfile import FileState, sha256_of
from tests.configmaps import Mount


def entry(split: Any, **target: Any) -> str:
    """Return a file of one entry."""
    return json.dumps({"nodeconfig": [{"devicesplitcount": split, **(target or {"name": "*"})}]})


def keeper(tmp_path: Path, **files: Any) -> NodeConfigKeeper:
    """Return one for a node whose labels are known."""
    found = NodeConfigKeeper(ConfigFiles(base=NvidiaConfig(), **files), node_name="n")
    found.set_labels({})
    return found


def current(keeper: NodeConfigKeeper) -> EffectiveConfig:
    """Return what holds."""
    found = keeper.current()
    assert found is not None
    return found


def test_a_changed_file_is_read(tmp_path: Path) -> None:
    """A new version of the ConfigMap counts from the next look on, and only then."""
    mount = Mount(tmp_path)
    mount.write(entry(3))
    kept = keeper(tmp_path, inline=mount.path)
    assert kept.current() is None
    assert kept.look()
    assert current(kept).split_count == 3
    assert not kept.look()
    mount.write(entry(4))
    assert current(kept).split_count == 3
    assert kept.look()
    assert current(kept).split_count == 4


def test_the_last_good_one_is_kept(tmp_path: Path) -> None:
    """A mistake changes nothing and is told for as long as it is there."""
    mount = Mount(tmp_path)
    mount.write(entry(3))
    kept = keeper(tmp_path, inline=mount.path)
    kept.look()
    before = current(kept)
    mount.write(entry(0))
    assert not kept.look()
    assert not kept.look()
    assert current(kept) == before
    assert [each.field for each in kept.findings()] == ["nodeconfig[0].devicesplitcount"]
    kept.set_labels({"pool": "t4"})
    assert kept.findings()
    mount.write(entry(3))
    assert not kept.look()
    assert not kept.findings()


def test_no_good_one_yet(tmp_path: Path) -> None:
    """A node whose first file has a mistake has no configuration, and so offers nothing."""
    mount = Mount(tmp_path)
    mount.write("{")
    kept = keeper(tmp_path, inline=mount.path)
    kept.look()
    kept.set_labels({"a": "b"})
    assert kept.current() is None
    assert kept.findings()


@pytest.mark.parametrize("content", [b"\xff", b" " * (1024 * 1024 + 1)])
def test_a_file_that_cannot_be_read(tmp_path: Path, content: bytes) -> None:
    """Bytes that are no text, or too many, are a mistake in the file like any other."""
    mount = Mount(tmp_path)
    mount.write(content)
    kept = keeper(tmp_path, inline=mount.path)
    kept.look()
    assert [each.code for each in kept.findings()] == ["NotReadable"]


def test_external_goes_before_inline(tmp_path: Path) -> None:
    """The administrator's file stands for the chart's as a whole, for as long as it is there."""
    external, inline = Mount(tmp_path / "e"), Mount(tmp_path / "i")
    inline.write(entry(3))
    external.write(entry(4, name="another"))
    kept = keeper(tmp_path, external=external.path, inline=inline.path)
    kept.look()
    assert current(kept).sources["split_count"] == "default"
    external.write(entry(5))
    kept.look()
    assert current(kept).winner == "external nodeconfig[0] (name *)"
    external.write(None)
    kept.look()
    assert current(kept).winner == "inline nodeconfig[0] (name *)"


def test_no_file_is_no_mistake(tmp_path: Path) -> None:
    """Where there is no file the base holds."""
    kept = keeper(tmp_path, inline=tmp_path / "none")
    assert kept.look()
    assert current(kept).split_count == NvidiaConfig().device_split_count


def test_labels_of_the_node(tmp_path: Path) -> None:
    """Nothing holds before the node's labels are known; when they change, another entry may."""
    mount = Mount(tmp_path)
    mount.write(entry(3, nodeSelector={"pool": "t4"}))
    files = ConfigFiles(base=NvidiaConfig(), inline=mount.path)
    kept = NodeConfigKeeper(files, node_name="n")
    kept.look()
    assert kept.current() is None
    assert kept.set_labels({"pool": "t4"})
    assert current(kept).split_count == 3
    assert not kept.set_labels({"pool": "t4"})
    assert kept.set_labels({})
    assert current(kept).split_count == NvidiaConfig().device_split_count


def test_a_file_written_in_place(tmp_path: Path) -> None:
    """A file that somebody edits is followed as well."""
    path = tmp_path / "config.json"
    path.write_text(entry(3))
    kept = keeper(tmp_path, inline=path)
    kept.look()
    path.write_text(entry(4))
    os.utime(path, ns=(1, 1))
    kept.look()
    assert current(kept).split_count == 4


def state(name: str, text: str | None, *, changed: bool = False) -> FileState:
    """Return what is to be said of a file that says *text*."""
    sha256 = None if text is None else sha256_of(text.encode())
    return FileState(name=name, sha256=sha256, changed=changed)


def test_the_file_in_force_is_told_by_its_hash(tmp_path: Path) -> None:
    """It follows the file, by the name of the flag that names it."""
    mount, own = Mount(tmp_path / "chart"), Mount(tmp_path / "own")
    kept = keeper(tmp_path, inline=mount.path, external=own.path)
    kept.look()
    assert kept.files() == ()
    mount.write(entry(3))
    kept.look()
    assert kept.files() == (state("node-config", entry(3)),)
    own.write(entry(4))
    kept.look()
    assert kept.files() == (state("external-node-config", entry(4)),)
    own.write(None)
    mount.write(None)
    kept.look()
    assert kept.files() == ()


def test_a_file_that_is_refused_is_not_the_one_in_force(tmp_path: Path) -> None:
    """The one before is in force until the mistake is mended, or none is."""
    mount = Mount(tmp_path)
    mount.write(entry(0))
    kept = keeper(tmp_path, inline=mount.path)
    kept.look()
    assert kept.files() == (state("node-config", None, changed=True),)
    mount.write(entry(3))
    kept.look()
    assert kept.files() == (state("node-config", entry(3)),)
    mount.write("{")
    kept.look()
    assert kept.files() == (state("node-config", entry(3), changed=True),)
    mount.write(entry(3))
    kept.look()
    assert kept.files() == (state("node-config", entry(3)),)
