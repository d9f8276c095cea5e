"""Checks of container runtimes: their files, and the sockets at which they answer."""

import json
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from cli.doctor.model import Status
from cli.doctor.node import containerd, cri
from cli.doctor.node.view import Node
from tests.cli.doctor.nodes import verdict, write

MAIN = "/etc/containerd/config.toml"
K3S = "/var/lib/rancher/k3s/agent/etc/containerd/config.toml"
V2 = 'plugins."io.containerd.grpc.v1.cri"'
V3 = 'plugins."io.containerd.cri.v1.runtime"'
TOOLKIT = "/etc/nvidia-container-runtime/config.toml"


def cdi(root: Path, files: dict[str, str], **options: Any) -> tuple[Status, str]:
    """Return status and words about CDI on a node with these files."""
    found = verdict(write(root, files), "runtime-cdi", **options)
    return found.status, found.seen


@pytest.mark.parametrize(
    ("files", "status", "said"),
    [
        ({MAIN: f"version = 2\n[{V2}]\nenable_cdi = true\n"}, Status.OK, "on, reads /etc/cdi"),
        ({MAIN: f"version = 2\n[{V2}]\nenable_cdi = false\n"}, Status.FAILED, "switched off"),
        ({MAIN: f"version = 2\n[{V2}]\n"}, Status.WARNING, "does not name enable_cdi"),
        ({MAIN: "version = 3\n"}, Status.OK, "on, reads /etc/cdi, /var/run/cdi"),
        ({MAIN: f"version = 3\n[{V3}]\nenable_cdi = false\n"}, Status.FAILED, "switched off"),
        (
            {MAIN: f'version = 3\n[{V3}]\ncdi_spec_dirs = ["/etc/cdi"]\n'},
            Status.FAILED,
            "reads /etc/cdi, not /var/run/cdi",
        ),
        (
            {MAIN: f'version = 3\n[{V3}]\ncdi_spec_dirs = ["/run/cdi"]\n'},
            Status.OK,
            "on, reads /run/cdi",
        ),
        ({K3S: "version = 3\n"}, Status.OK, "on"),
        ({"/etc/crio/crio.conf": "[crio.runtime]\n"}, Status.OK, "on, reads /etc/cdi"),
        (
            {"/etc/crio/crio.conf.d/10-x": '[crio.runtime]\ncdi_spec_dirs = ["/etc/cdi"]\n'},
            Status.FAILED,
            "cri-o reads /etc/cdi",
        ),
        ({}, Status.UNKNOWN, "no configuration"),
        ({MAIN: "version = = 3\n"}, Status.UNKNOWN, "no TOML"),
    ],
)  # fmt: skip
def test_configurations(files: dict[str, str], status: Status, said: str, tmp_path: Path) -> None:
    """Forms 2 and 3 of containerd, k3s and CRI-O say whether CDI is on, and from where."""
    found, words = cdi(tmp_path, files)
    assert found is status
    assert said in words


def test_drop_ins_are_merged(tmp_path: Path) -> None:
    """An import wins in what it says and leaves the rest, and its path is relative to the file."""
    files = {
        MAIN: f'version = 3\nimports = ["conf.d/*.toml"]\n[{V3}]\ncdi_spec_dirs = ["/a"]\n',
        "/etc/containerd/conf.d/10.toml": (
            f'version = 3\n[{V3}]\ncdi_spec_dirs = ["/var/run/cdi"]\n'
        ),
        "/etc/containerd/conf.d/99.toml": (
            f'version = 3\n[{V3}.containerd]\ndefault_runtime_name = "nvidia"\n'
        ),
    }
    assert cdi(tmp_path, files) == (Status.OK, "on, reads /var/run/cdi")
    assert verdict(tmp_path, "nvidia-runtime").status is Status.WARNING
    assert "conf.d/10.toml" in verdict(tmp_path, "runtime").seen


def test_drop_in_of_containerd_1_replaces_a_section(tmp_path: Path) -> None:
    """There a drop-in with one runtime in it forgets what the main file says of CDI."""
    write(
        tmp_path,
        {
            MAIN: f'version = 2\nimports = ["/etc/containerd/x.toml"]\n[{V2}]\nenable_cdi = true\n',
            "/etc/containerd/x.toml": (
                f'version = 2\n[{V2}.containerd]\ndefault_runtime_name = "nvidia"\n'
            ),
        },
    )
    node = Node(host_root=tmp_path)
    assert "enable_cdi" not in containerd.read(node, MAIN, major=1).section
    assert containerd.read(node, MAIN, major=2).section["enable_cdi"] is True


def test_damaged_drop_in_is_told(tmp_path: Path) -> None:
    """The main file counts on, and what cannot be read is named."""
    files = {MAIN: 'version = 3\nimports = ["x/*.toml"]\n', "/etc/containerd/x/1.toml": "= 1"}
    found = verdict(write(tmp_path, files), "runtime")
    assert (found.status, "x/1.toml: no TOML" in found.details[0]) == (Status.WARNING, True)


@pytest.mark.parametrize(
    ("toolkit", "status"),
    [
        (None, Status.WARNING),
        ("", Status.WARNING),
        ("accept-nvidia-visible-devices-envvar-when-unprivileged = true\n", Status.WARNING),
        ("accept-nvidia-visible-devices-envvar-when-unprivileged = false\n", Status.OK),
        ("= broken", Status.UNKNOWN),
    ],
)
def test_default_runtime_of_nvidia(toolkit: str | None, status: Status, tmp_path: Path) -> None:
    """Where NVIDIA's runtime is the default any pod takes GPUs, unless that is switched off."""
    files = {MAIN: f'version = 2\n[{V2}.containerd]\ndefault_runtime_name = "nvidia"\n'}
    if toolkit is not None:
        files[TOOLKIT] = toolkit
    found = verdict(write(tmp_path, files), "nvidia-runtime")
    assert found.status is status
    if status is Status.WARNING:
        assert "NVIDIA_VISIBLE_DEVICES" in found.seen


def test_runtime_under_another_name(tmp_path: Path) -> None:
    """The default may be called as one likes: its program tells; and runc is well."""
    options = f"{V2}.containerd.runtimes.runc.options"
    binary = '"/usr/bin/nvidia-container-runtime"'
    text = f'[{V2}.containerd]\ndefault_runtime_name = "runc"\n[{options}]\nBinaryName = {binary}\n'
    write(tmp_path, {MAIN: f"version = 2\n{text}"})
    assert verdict(tmp_path, "nvidia-runtime").status is Status.WARNING
    write(tmp_path, {MAIN: "version = 2\n"})
    said = "pods run with runc unless they say otherwise"
    assert verdict(tmp_path, "nvidia-runtime").seen == said


@contextmanager
def answering(socket: Path, *, name: str, version: str, config: str = "") -> Iterator[None]:
    """Answer at *socket* as a runtime does."""
    told = cri.message("VersionResponse")(runtime_name=name, runtime_version=version)
    status = cri.message("StatusResponse")(info={"config": config} if config else {})

    def handler(method: str, answer: Any) -> grpc.RpcMethodHandler:  # type: ignore[type-arg]
        return grpc.unary_unary_rpc_method_handler(
            lambda _request, _context: answer,
            request_deserializer=cri.message(f"{method}Request").FromString,
            response_serializer=cri.message(f"{method}Response").SerializeToString,
        )

    server = grpc.server(ThreadPoolExecutor(2))
    handlers = {"Version": handler("Version", told), "Status": handler("Status", status)}
    server.add_registered_method_handlers("runtime.v1.RuntimeService", handlers)
    socket.parent.mkdir(parents=True, exist_ok=True)
    server.add_insecure_port(f"unix:{socket}")
    server.start()
    try:
        yield
    finally:
        server.stop(None).wait()


@pytest.fixture
def short() -> Iterator[Path]:
    """Return a folder whose path leaves room for sockets."""
    with tempfile.TemporaryDirectory(prefix="g") as name:
        yield Path(name)


def containerd_at(root: Path, version: str, **config: Any) -> Any:
    """Answer as containerd on the node at *root*."""
    socket = root / "run/containerd/containerd.sock"
    return answering(socket, name="containerd", version=version, config=json.dumps(config))


@pytest.mark.parametrize(
    ("version", "said", "status"),
    [
        ("v1.7.30", {"enableCDI": True}, Status.OK),
        ("v1.7.30", {}, Status.FAILED),
        ("2.0.1", {}, Status.OK),
        ("v2.1.0", {"enableCDI": False}, Status.FAILED),
        ("v2.4.2", {"enableCDI": False}, Status.OK),
    ],
)
def test_running_containerd_knows_best(
    version: str, said: dict[str, bool], status: Status, short: Path
) -> None:
    """What it runs with counts, whatever the files have become since."""
    write(
        short, {MAIN: f"version = 2\n[{V2}]\nenable_cdi = {str(status is Status.FAILED).lower()}"}
    )
    runtimes = {"defaultRuntimeName": "nvidia"}
    with containerd_at(short, version, cdiSpecDirs=["/var/run/cdi"], containerd=runtimes, **said):
        assert verdict(short, "runtime-cdi").status is status
        assert "(the running containerd)" in verdict(short, "runtime").seen
        assert verdict(short, "nvidia-runtime").status is Status.WARNING


def test_release_completes_the_files(short: Path) -> None:
    """A runtime that tells its release alone has the rest in its files."""
    write(short, {"/etc/crio/crio.conf": '[crio.runtime]\ndefault_runtime = "nvidia"\n'})
    with answering(short / "var/run/crio/crio.sock", name="cri-o", version="1.33.2"):
        found = verdict(short, "runtime")
        assert (found.status, "own variables" in found.seen) == (Status.WARNING, True)
        assert verdict(short, "nvidia-runtime").status is Status.WARNING


def test_release_without_cdi(short: Path) -> None:
    """Containerd 1.6 does not know CDI devices."""
    with containerd_at(short, "1.6.20", cdiSpecDirs=[]):
        assert verdict(short, "runtime").status is Status.FAILED


def test_socket_without_a_runtime(short: Path) -> None:
    """A socket that nobody serves is told beside the lack of files."""
    import socket  # noqa: PLC0415

    path = short / "run/containerd/containerd.sock"
    path.parent.mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    found = verdict(short, "runtime")
    assert (found.status, "containerd.sock" in found.seen) == (Status.UNKNOWN, True)
