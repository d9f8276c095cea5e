"""How edits meet a container: what is replaced, what is appended, what must exist."""

import os
from pathlib import Path
from typing import Any

import pytest

from sim.runtime.container import MountView
from sim.runtime.errors import InjectionError
from sim.runtime.inject import Draft, add_mount, apply, check_mounts, on_host
from sim.runtime.spec import Edits


def edits(**content: Any) -> Edits:
    """Return edits from their JSON form."""
    return Edits.model_validate(content)


def injected(root: Path, *parts: dict[str, Any], env: dict[str, str] | None = None) -> Draft:
    """Return a container of a host at *root* with all *parts* applied in one go."""
    draft = Draft(host_root=root, env=dict(env or {}))
    apply(draft, [edits(**part) for part in parts])
    return draft


def touch(root: Path, *paths: str) -> None:
    """Make empty files on the host."""
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).touch()


def mount(host: str, container: str) -> dict[str, Any]:
    """Return a read-only bind mount."""
    return {"hostPath": host, "containerPath": container, "options": ["ro", "bind"]}


def test_the_last_assignment_wins_in_place(tmp_path: Path) -> None:
    """CDI's value replaces the pod's where it stands; new names come last."""
    draft = injected(
        tmp_path, {"env": ["B=common", "C=1"]}, {"env": ["B=x=y"]}, env={"A": "0", "B": "pod"}
    )
    assert list(draft.env.items()) == [("A", "0"), ("B", "x=y"), ("C", "1")]


def test_a_node_of_the_same_path_is_replaced(tmp_path: Path) -> None:
    """Two edits for one device path leave the later one."""
    node = {"path": "/dev/a", "type": "c", "major": 195}
    draft = injected(
        tmp_path,
        {"deviceNodes": [{**node, "minor": 1}, {"path": "/dev/b", "type": "c", "major": 1}]},
        {"deviceNodes": [{**node, "minor": 2, "permissions": "r"}]},
    )
    assert [(one.path, one.minor, one.permissions) for one in draft.devices] == [
        ("/dev/b", 0, "rwm"),
        ("/dev/a", 2, "r"),
    ]


@pytest.mark.parametrize(
    "node",
    [
        {"path": "/dev/none"},
        {"path": "/dev/none", "type": "c"},
        {"path": "/dev/none", "major": 195},
        {"path": "/dev/there", "hostPath": "/dev/none"},
    ],
)
def test_a_missing_node_is_fatal(tmp_path: Path, node: dict[str, Any]) -> None:
    """A host without the node refuses unless type and major say what to make."""
    touch(tmp_path, "dev/there")
    with pytest.raises(InjectionError, match="/dev/none"):
        injected(tmp_path, {"deviceNodes": [node]})


@pytest.mark.parametrize(
    "node", [{"type": "c", "major": 195, "minor": 3}, {"type": "p"}, {"type": "b", "major": 8}]
)
def test_a_described_node_needs_no_host(tmp_path: Path, node: dict[str, Any]) -> None:
    """Type and major together, or a FIFO, are made without asking the host."""
    draft = injected(tmp_path, {"deviceNodes": [{"path": "/dev/none", **node}]})
    assert draft.devices[0].type == node["type"]
    assert draft.devices[0].minor == node.get("minor", 0)


def test_the_host_completes_a_node() -> None:
    """Type and numbers come from the host's node."""
    draft = injected(Path("/"), {"deviceNodes": [{"path": "/dev/x", "hostPath": "/dev/null"}]})
    found = draft.devices[0]
    assert (found.path, found.host_path, found.type) == ("/dev/x", "/dev/null", "c")
    assert (found.major, found.minor) == (1, 3)


def test_a_fifo_of_the_host_is_found(tmp_path: Path) -> None:
    """The host's own type is taken when none is given, and a wrong one is refused."""
    os.mkfifo(tmp_path / "pipe")
    assert injected(tmp_path, {"deviceNodes": [{"path": "/pipe"}]}).devices[0].type == "p"
    with pytest.raises(InjectionError, match=r"host type mismatch \(b, p\)"):
        injected(tmp_path, {"deviceNodes": [{"path": "/pipe", "type": "b"}]})


def test_a_directory_is_no_node(tmp_path: Path) -> None:
    """What is neither a node nor a stand-in is refused."""
    (tmp_path / "dir").mkdir()
    with pytest.raises(InjectionError, match="not a device node"):
        injected(tmp_path, {"deviceNodes": [{"path": "/dir"}]})


def test_a_plain_file_stands_for_a_node(tmp_path: Path) -> None:
    """A simulated host may show a file, since only root can make nodes."""
    touch(tmp_path, "dev/nvidia0")
    assert injected(tmp_path, {"deviceNodes": [{"path": "/dev/nvidia0"}]}).devices[0].type == "c"


def test_a_mount_of_the_same_destination_is_replaced(tmp_path: Path) -> None:
    """The later mount on a path wins, also over the runtime's own."""
    touch(tmp_path, "a", "b")
    draft = Draft(host_root=tmp_path)
    add_mount(draft, MountView(container_path="/x/y", type="tmpfs"))
    apply(draft, [edits(mounts=[mount("/a", "/x/y")]), edits(mounts=[mount("/b", "/x/y")])])
    assert [(one.container_path, one.source) for one in draft.mounts] == [
        ("/x/y", str(tmp_path / "b"))
    ]


def test_mounts_are_sorted_by_depth(tmp_path: Path) -> None:
    """Shallow mounts come first, equals keep their order, and the root is no shallower."""
    touch(tmp_path, "a")
    paths = ["/b/c/d", "/z", "/b/c", "/a", "/"]
    draft = injected(tmp_path, {"mounts": [mount("/a", path) for path in paths]})
    assert [one.container_path for one in draft.mounts] == ["/z", "/a", "/", "/b/c", "/b/c/d"]


def test_a_missing_mount_source_is_fatal(tmp_path: Path) -> None:
    """A bind mount needs its source; a file system of its own does not."""
    draft = injected(tmp_path, {"mounts": [mount("/none", "/x")]})
    with pytest.raises(InjectionError, match="/none"):
        check_mounts(draft)
    tmpfs = {"hostPath": "tmpfs", "containerPath": "/x", "type": "tmpfs"}
    draft = injected(tmp_path, {"mounts": [tmpfs]})
    check_mounts(draft)
    assert draft.mounts[0].source is None


def test_hooks_are_appended_and_never_compared(tmp_path: Path) -> None:
    """The same hook twice stands there twice."""
    hook = {"hookName": "createContainer", "path": "/bin/hook", "args": ["hook", "x"]}
    draft = injected(tmp_path, {"hooks": [hook]}, {"hooks": [hook]})
    assert [one.args for one in draft.hooks] == [("hook", "x")] * 2


def test_groups_are_added_once_and_zero_never(tmp_path: Path) -> None:
    """Additional groups are a set without root's."""
    draft = injected(tmp_path, {"additionalGids": [0, 44]}, {"additionalGids": [44, 45]})
    assert draft.additional_gids == [44, 45]


def test_paths_of_the_host_may_be_named_either_way(tmp_path: Path) -> None:
    """A path below the node's root and one as the node itself sees it mean the same file."""
    assert on_host(tmp_path, "/etc/x") == tmp_path / "etc/x"
    assert on_host(tmp_path, str(tmp_path / "etc/x")) == tmp_path / "etc/x"
