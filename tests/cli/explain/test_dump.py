"""Whatever kubectl has printed is read, under whatever names; what is not read is told."""

import json
from pathlib import Path

import pytest

from cli.explain.dump import Dump, is_kubeconfig
from cli.explain.errors import InputError
from cli.explain.source import read

NODE = "apiVersion: v1\nkind: Node\nmetadata: {name: a, creationTimestamp: 2026-11-29T12:00:00Z}\n"


def _names(dump: Dump) -> list[tuple[str, str]]:
    return [(item["kind"], item["metadata"]["name"]) for item in dump.objects]


def test_lists_and_single_objects_are_read_from_any_file(tmp_path: Path) -> None:
    """Lists of any kind, documents in a row, JSON without an ending, folders below."""
    (tmp_path / "deep" / "er").mkdir(parents=True)
    pods = {"apiVersion": "v1", "kind": "PodList", "items": [{"metadata": {"name": "p"}}]}
    mixed = {"kind": "List", "items": [{"kind": "Secret", "metadata": {"name": "s"}}]}
    (tmp_path / "1-pods").write_text(json.dumps(pods))
    (tmp_path / "2.yml").write_text(f"{NODE}---\n{NODE.replace('name: a', 'name: b')}---\n")
    (tmp_path / "deep" / "er" / "x.json").write_text(json.dumps(mixed))
    dump = Dump(tmp_path)
    assert _names(dump) == [("Pod", "p"), ("Node", "a"), ("Node", "b"), ("Secret", "s")]
    assert dump.objects[0]["apiVersion"] == "v1"
    assert dump.notes == []


def test_a_time_stays_a_text(tmp_path: Path) -> None:
    """YAML's own types are not Kubernetes'."""
    (tmp_path / "n.yaml").write_text(NODE)
    (node,) = Dump(tmp_path).objects
    assert node["metadata"]["creationTimestamp"] == "2026-11-29T12:00:00Z"


def test_a_file_that_is_cut_is_told(tmp_path: Path) -> None:
    """What promises objects and cannot be read is named; a log among the files is not."""
    (tmp_path / "n.yaml").write_text(NODE)
    (tmp_path / "cut.json").write_text('{"kind": "List", "items": [')
    (tmp_path / "events.log").write_text("one: two: three")
    (tmp_path / "binary").write_bytes(bytes(range(256)))
    dump = Dump(tmp_path)
    assert _names(dump) == [("Node", "a")]
    (note,) = dump.notes
    assert note.startswith(f"{tmp_path / 'cut.json'} is left out: ")


def test_one_file_is_enough(tmp_path: Path) -> None:
    """A file that is named itself is read whatever its ending."""
    path = tmp_path / "everything"
    path.write_text(NODE)
    assert _names(Dump(path)) == [("Node", "a")]
    assert read(path, None).snapshot.nodes[0]["metadata"]["name"] == "a"


@pytest.mark.parametrize("content", ["", "[]", "null", "just words", "{}", '{"kind": "List"}'])
def test_a_folder_without_objects_is_an_error(tmp_path: Path, content: str) -> None:
    """Nothing to explain from is not a verdict."""
    (tmp_path / "x.json").write_text(content)
    with pytest.raises(InputError, match="holds no Kubernetes objects"):
        Dump(tmp_path)


def test_a_dump_without_nodes_is_an_error(tmp_path: Path) -> None:
    """A pod fits on no node when the nodes were forgotten, which is not what is asked."""
    (tmp_path / "p.json").write_text('{"kind": "Pod", "metadata": {"name": "p"}, "spec": {}}')
    with pytest.raises(InputError, match="kubectl get nodes"):
        read(tmp_path, None)


def test_kinds_that_are_missing_are_told(tmp_path: Path) -> None:
    """A dump without slices says so beside a verdict about claims."""
    (tmp_path / "n.yaml").write_text(NODE)
    assert read(tmp_path, None).claim_notes == (
        f"{tmp_path} holds no DeviceClass",
        f"{tmp_path} holds no ResourceSlice",
    )


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("apiVersion: v1\nkind: Config\nclusters: []\n", True),
        ('{"kind": "Config"}', True),
        (NODE, False),
        (f"{NODE}---\n{NODE}", False),
        ("a: b: c", False),
    ],
)
def test_a_kubeconfig_is_told_from_a_dump(tmp_path: Path, content: str, *, expected: bool) -> None:
    """One option takes both: the kind decides."""
    path = tmp_path / "file"
    path.write_text(content)
    assert is_kubeconfig(path) is expected


def test_a_path_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    """The system's own words say what is wrong with the path."""
    with pytest.raises(InputError, match="No such file"):
        read(tmp_path / "nothing", None)
