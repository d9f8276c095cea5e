"""Containers as data: environment, files, states and what other processes can read."""

import json
from pathlib import Path
from typing import Any

import pytest

from sim.runtime.container import ContainerView, MountView, PodRef, State, from_json
from sim.runtime.errors import UnresolvableDevicesError
from sim.runtime.runtime import ContainerRequest, Runtime

SHM = "/dev/shm"  # noqa: S108
POD = PodRef(namespace="default", name="pod", uid="uid-1")


def runtime(root: Path) -> Runtime:
    """Return the runtime of a node at *root*."""
    return Runtime(root=root, containers_dir=root / "containers")


def request(*devices: str, name: str = "app", **changes: Any) -> ContainerRequest:
    """Return a request for a container with CDI *devices*."""
    return ContainerRequest(pod=POD, container=name, cdi_devices=devices, **changes)


def put_spec(root: Path, edits: dict[str, Any]) -> str:
    """Write a spec for one device and return the device's name."""
    device = {"name": "dev0", "containerEdits": edits}
    document = {"cdiVersion": "0.5.0", "kind": "vendor.com/class", "devices": [device]}
    path = root / "var/run/cdi/a.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document), encoding="utf-8")
    return "vendor.com/class=dev0"


def on_disk(root: Path, name: str = "app") -> ContainerView:
    """Return a container as another process would read it."""
    return from_json((root / "containers" / POD.uid / f"{name}.json").read_bytes())


def test_cdi_beats_the_pods_environment(tmp_path: Path) -> None:
    """A pod cannot set what a device sets."""
    device = put_spec(tmp_path, {"env": ["LIMIT=device"]})
    view = runtime(tmp_path).start(request(device, env={"LIMIT": "pod", "MINE": "1"}))
    assert view.env["LIMIT"] == "device"
    assert view.env["MINE"] == "1"
    assert view.env["HOSTNAME"] == "pod"


def test_a_file_tells_other_processes(tmp_path: Path) -> None:
    """What the runtime holds and what the file says is the same, in every state."""
    host = runtime(tmp_path)
    assert host.start(request()) == on_disk(tmp_path)
    host.exit(POD.uid, "app", exit_code=3)
    assert (on_disk(tmp_path).state, on_disk(tmp_path).exit_code) == (State.EXITED, 3)
    host.remove_pod(POD.uid)
    assert not (tmp_path / "containers" / POD.uid).exists()
    assert host.containers() == []


def test_an_unknown_device_makes_no_container(tmp_path: Path) -> None:
    """A container whose devices cannot be resolved leaves nothing behind."""
    host = runtime(tmp_path)
    with pytest.raises(UnresolvableDevicesError):
        host.start(request("vendor.com/class=dev0"))
    assert host.containers() == []
    assert not (tmp_path / "containers").exists()


def test_specs_are_read_for_every_container(tmp_path: Path) -> None:
    """A spec that appears later is found without any restart."""
    host = runtime(tmp_path)
    device = put_spec(tmp_path, {"env": ["A=1"]})
    assert host.start(request(device)).env["A"] == "1"
    put_spec(tmp_path, {"env": ["A=2"]})
    assert host.start(request(device)).env["A"] == "2"


def test_a_container_sees_files_through_its_mounts(tmp_path: Path) -> None:
    """The deepest mount over a path shows its file; elsewhere nothing of the host is seen."""
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/a.so").write_text("host", encoding="utf-8")
    (tmp_path / "other.so").write_text("other", encoding="utf-8")
    mounts = [
        {"hostPath": "/other.so", "containerPath": "/usr/lib/b.so", "options": ["bind"]},
        {"hostPath": "/lib", "containerPath": "/usr/lib", "options": ["bind"]},
    ]
    view = runtime(tmp_path).start(request(put_spec(tmp_path, {"mounts": mounts})))
    assert view.visible("/usr/lib/a.so") == tmp_path / "lib/a.so"
    assert view.visible("/usr/lib/b.so") == tmp_path / "other.so"
    assert view.visible("/usr/lib/none.so") is None
    assert view.visible("/lib/a.so") is None
    assert view.visible("/dev/null") is None


def test_a_device_may_take_the_runtimes_own_mount(tmp_path: Path) -> None:
    """A CDI mount on `/dev/shm` replaces the one that the runtime makes."""
    (tmp_path / "shm").mkdir()
    edits = {"mounts": [{"hostPath": "/shm", "containerPath": SHM, "options": ["bind"]}]}
    view = runtime(tmp_path).start(request(put_spec(tmp_path, edits)))
    shared = [one for one in view.mounts if one.container_path == SHM]
    assert [one.source for one in shared] == [str(tmp_path / "shm")]


def test_mounts_of_the_pod_are_there(tmp_path: Path) -> None:
    """What kubelet passes as a mount shows up before CDI."""
    volume = MountView(container_path="/data", type="bind", source=str(tmp_path))
    view = runtime(tmp_path).start(request(mounts=(volume,)))
    assert view.visible("/data") == tmp_path


def test_stopping_a_pod_ends_its_running_containers(tmp_path: Path) -> None:
    """A container that has ended keeps its own exit code."""
    host = runtime(tmp_path)
    host.start(request(name="init"))
    host.exit(POD.uid, "init", exit_code=0)
    host.start(request(name="app"))
    host.stop_pod(POD.uid)
    assert [(one.container, one.exit_code) for one in host.containers()] == [
        ("init", 0),
        ("app", 143),
    ]


def test_a_reboot_leaves_no_containers(tmp_path: Path) -> None:
    """Nothing runs after a reboot, and no file claims so."""
    host = runtime(tmp_path)
    host.start(request())
    host.reset()
    assert host.find(POD.uid, "app") is None
    assert list((tmp_path / "containers").iterdir()) == []
