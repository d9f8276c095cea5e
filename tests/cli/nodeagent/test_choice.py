"""The mode of a start, on a real state directory and against a real API server's protocol."""

import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from cli.nodeagent.choice import ModeChoice
from cli.nodeagent.mode import LABEL, Mode, ModeError
from cli.nodeagent.modefile import ModeFile
from cli.nodeagent.settings import NodeAgentSettings
from kube.client import Client
from kube.config import ClientConfig
from tests.fakes.api_server import ServerThread, serving

NODE = "node-a"
DEVICES = "GPU-a,NVIDIA,3000,30:;"


@pytest.fixture
def server() -> Iterator[ServerThread]:
    """Run an API server without nodes."""
    with serving() as running:
        yield running


def add_node(server: ServerThread, label: str | None) -> None:
    """Create the node with or without the label."""
    labels = {} if label is None else {LABEL: label}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE, "labels": labels}}
    server.run(server.server.api.create("nodes", node))


def add_pod(server: ServerThread, name: str, devices: str, phase: str = "Running") -> Any:
    """Create a pod of the node that a device plugin has served."""
    annotations = {"hami.io/vgpu-devices-allocated": devices}
    metadata = {"name": name, "namespace": "default", "annotations": annotations}
    spec = {"nodeName": NODE, "containers": [{"name": "main", "image": "x"}]}
    api = server.server.api
    pod = server.run(api.create("pods", {"metadata": metadata, "spec": spec}))
    set_phase(server, pod, phase)
    return pod


def set_phase(server: ServerThread, pod: dict[str, Any], phase: str) -> None:
    """Have the pod be in *phase*."""
    api = server.server.api
    pod = server.run(api.get("pods", pod["metadata"]["name"], "default"))
    server.run(api.update("pods", {**pod, "status": {"phase": phase}}, subresource="status"))


class Start:
    """One start of an agent."""

    def __init__(self, root: Path, client: Client, mode: str) -> None:
        self.file = ModeFile(root / "node-mode")
        self.stopping = threading.Event()
        options: dict[str, Any] = {"node_name": NODE, "mode": mode, "kubelet_root": root}
        settings = NodeAgentSettings(**options)
        self._choice = ModeChoice(settings, client=client, file=self.file, boot_id="boot")

    def mode(self) -> Mode:
        """Return what is chosen; gives up when that takes long."""
        timer = threading.Timer(1.0, self.stopping.set)
        timer.start()
        try:
            return self._choice.wait(self.stopping)
        finally:
            timer.cancel()


def refuse_trials(server: ServerThread) -> None:
    """Have the server answer no question for what it keeps."""
    server.call(server.server.fail_next, 1000, 403, verb="create", path_part="resourceslices")


@pytest.fixture
def nobody() -> Client:
    """Return a client of a server that is not there."""
    config = ClientConfig(host="http://127.0.0.1:1", token=lambda: "t")
    return Client(config, user_agent="test", timeout_s=0.2)


def test_the_label_decides_and_is_remembered(
    tmp_path: Path, server: ServerThread, nobody: Client
) -> None:
    """The next start serves the node in the same way without an API server."""
    add_node(server, "device-plugin")
    with closing(server.client()) as client:
        assert Start(tmp_path, client, "auto").mode() is Mode.DEVICE_PLUGIN
    assert Start(tmp_path, nobody, "auto").mode() is Mode.DEVICE_PLUGIN


@pytest.mark.parametrize(
    ("version", "mode"), [("1.35", Mode.DEVICE_PLUGIN), ("1.36", Mode.DRA), ("1.37", Mode.DRA)]
)
def test_without_a_label_the_server_decides(
    tmp_path: Path, server: ServerThread, version: str, mode: Mode
) -> None:
    """It is asked once, and what it said is remembered as if a label had said it."""
    server.call(server.server.set_version, version)
    add_node(server, None)
    with closing(server.client()) as client:
        assert Start(tmp_path, client, "auto").mode() is mode
        refuse_trials(server)
        assert Start(tmp_path, client, "auto").mode() is mode


@pytest.mark.parametrize("version", ["1.35", "1.37"])
@pytest.mark.parametrize("mode", list(Mode))
def test_the_label_is_above_the_server(
    tmp_path: Path, server: ServerThread, version: str, mode: Mode
) -> None:
    """What an administrator says is not even asked about."""
    server.call(server.server.set_version, version)
    add_node(server, str(mode))
    refuse_trials(server)
    with closing(server.client()) as client:
        assert Start(tmp_path, client, "auto").mode() is mode


def test_a_server_that_does_not_say_is_waited_for(tmp_path: Path, server: ServerThread) -> None:
    """The log says why, and that a label would do."""
    add_node(server, None)
    refuse_trials(server)
    with closing(server.client()) as client, capture_logs() as logs:
        with pytest.raises(ModeError, match="stopped before"):
            Start(tmp_path, client, "auto").mode()
        server.call(server.server.clear_faults)
        assert Start(tmp_path, client, "auto").mode() is Mode.DRA
    (told,) = [each["reason"] for each in logs if each["event"] == "node mode not chosen"]
    assert f"no label {LABEL}" in told
    assert "403" in told


def test_a_node_that_is_not_there_is_waited_for(tmp_path: Path, server: ServerThread) -> None:
    """Nobody can say yet how it is to be served."""
    with (
        closing(server.client()) as client,
        capture_logs() as logs,
        pytest.raises(ModeError, match="stopped before"),
    ):
        Start(tmp_path, client, "auto").mode()
    assert [f"no Node {NODE}" in each["reason"] for each in logs] == [True]


def test_a_first_start_for_claims_asks_nobody(tmp_path: Path, nobody: Client) -> None:
    """Nothing else was ever served where there is no file."""
    assert Start(tmp_path, nobody, "dra").mode() is Mode.DRA


@pytest.mark.parametrize("mode", ["auto", "device-plugin"])
def test_a_change_waits_for_the_api_server(tmp_path: Path, nobody: Client, mode: str) -> None:
    """Pods of the other mode may run that only the API server knows."""
    with pytest.raises(ModeError, match="stopped before"):
        Start(tmp_path, nobody, mode).mode()


def test_a_file_that_was_forgotten_counts_as_a_change(tmp_path: Path, nobody: Client) -> None:
    """After it has left a mode on purpose, an agent asks who is left."""
    start = Start(tmp_path, nobody, "dra")
    start.file.write(Mode.DEVICE_PLUGIN)
    start.file.forget()
    with pytest.raises(ModeError):
        start.mode()


def test_pods_with_devices_keep_a_node_from_claims(tmp_path: Path, server: ServerThread) -> None:
    """Those that have ended, and those whose places are all empty, do not."""
    add_node(server, "dra")
    add_pod(server, "ended", DEVICES, phase="Succeeded")
    add_pod(server, "empty", ";;")
    holding = add_pod(server, "holds", DEVICES)
    with closing(server.client()) as client:
        start = Start(tmp_path, client, "auto")
        start.file.write(Mode.DEVICE_PLUGIN)
        start.file.forget()
        with pytest.raises(ModeError):
            start.mode()
        set_phase(server, holding, "Failed")
        start.stopping.clear()
        assert start.mode() is Mode.DRA


def test_a_label_against_the_setting_is_not_served(tmp_path: Path, server: ServerThread) -> None:
    """The agent waits until one of them is changed."""
    add_node(server, "dra")
    with closing(server.client()) as client, pytest.raises(ModeError):
        Start(tmp_path, client, "device-plugin").mode()
