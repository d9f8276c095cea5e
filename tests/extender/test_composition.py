"""The program as it is run, with everything that decides."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from extender.composition import device_config
from extender.parts import StartError
from extender.settings import ExtenderSettings
from kube.configfile import sha256_of
from kube.paths import nodes, pods
from tests.configmaps import Mount
from tests.extender.statemachine import container, gpu, node, pod
from tests.fakes.api_server import ServerThread, serving
from tests.hami.chartconfig import chart_config
from tests.patience import eventually

_HOST = "127.0.0.1"


def _settings(*flags: str) -> ExtenderSettings:
    return ExtenderSettings.from_arguments(flags, program="gpuslice-extender")


def test_without_a_file_nvidias_devices_are_managed(tmp_path: Path) -> None:
    """A file brings others; one that cannot be read ends the start with its name."""
    assert device_config(_settings()).config.vendors == ()
    path = tmp_path / "device-config.yaml"
    with pytest.raises(StartError, match=r"device-config\.yaml"):
        device_config(_settings("--device-config", str(path)))
    path.write_text(
        "nvidia: {resourceCountName: nvidia.com/gpu}\nhygon: {resourceCountName: x/y}\n"
    )
    assert device_config(_settings("--device-config", str(path))).config.vendors
    path.write_text("nvidia: 1\n")
    with pytest.raises(StartError):
        device_config(_settings("--device-config", str(path)))


def test_what_the_command_runs_with_is_told(tmp_path: Path) -> None:
    """By the hash of its file, at the start and in metrics; also that another one is there."""
    mount = Mount(tmp_path / "config", "device-config.yaml")
    mount.write(chart_config())
    sha256 = sha256_of(mount.path.read_bytes())
    with (
        serving() as server,
        _extender(server, tmp_path, f"--device-config={mount.path}") as (
            port,
            said,
        ),
    ):

        def told() -> set[str]:
            lines = _ask(port, "/metrics")[1].decode().splitlines()
            return {each for each in lines if each.startswith("gpuslice_config_")}

        info = f'gpuslice_config_info{{file="device-config",sha256="{sha256}"}} 1.0'
        eventually(lambda: _ask(port, "/readyz")[0] == 200)
        assert told() == {info, 'gpuslice_config_changed{file="device-config"} 0.0'}
        mount.write(chart_config(defaultCores=5))
        assert told() == {info, 'gpuslice_config_changed{file="device-config"} 1.0'}
        assert sha256 in said.read_text()


@contextmanager
def _extender(server: ServerThread, tmp_path: Path, *flags: str) -> Iterator[tuple[int, Path]]:
    kubeconfig, said = tmp_path / "kubeconfig", tmp_path / "log"
    server.call(server.server.write_kubeconfig, kubeconfig, "extender")
    words = [
        *(sys.executable, "-m", "cli.main", "extender", "--no-leader-elect"),
        *("--kubeconfig", str(kubeconfig), "--port", "0", "--metrics-port", "0"),
        *("--metrics-address", _HOST),
        *flags,
    ]
    with (
        said.open("w") as log,
        subprocess.Popen(words, stderr=log) as process,  # noqa: S603 - our own program
    ):
        try:
            yield eventually(lambda: _port(said)), said
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)
    assert process.returncode == 0, said.read_text()


def _port(said: Path) -> int:
    for line in said.read_text().splitlines():
        found = json.loads(line) if line.startswith("{") else {}
        if found.get("event") == "extender started":
            return int(found["port"])
    return 0


def _ask(port: int, path: str, body: Any = None) -> tuple[int, bytes]:
    connection = HTTPConnection(_HOST, port, timeout=30)
    try:
        raw = None if body is None else json.dumps(body).encode()
        connection.request("GET" if body is None else "POST", path, raw)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def test_the_command_places_and_binds_a_pod(tmp_path: Path) -> None:
    """From flags to annotations, as a process; SIGTERM ends it well."""
    with serving() as server:
        client = server.client("admin")
        item = node("n", [gpu("GPU-a"), gpu("GPU-b")])
        del item["metadata"]["uid"]
        client.create(nodes(), item)
        asking = pod("p", container(gpu=1, gpumem=3000, gpucores=30), namespace="default")
        asking["spec"]["containers"][0]["image"] = "i"
        made = json.loads(client.create(pods("default"), asking))
        with _extender(server, tmp_path) as (port, said):
            eventually(lambda: _ask(port, "/readyz")[0] == 200)
            question = {"Pod": made, "Nodes": None, "NodeNames": ["other", "n"]}
            status, answer = _ask(port, "/filter", question)
            assert status == 200
            assert json.loads(answer)["NodeNames"] == ["n"], answer
            uid = made["metadata"]["uid"]
            binding = {"PodName": "p", "PodNamespace": "default", "PodUID": uid, "Node": "n"}
            assert _ask(port, "/bind", binding) == (200, b'{"Error":""}')
            bound = json.loads(client.get(pods("default", "p")))
            assert bound["spec"]["nodeName"] == "n"
            annotations = bound["metadata"]["annotations"]
            assert annotations["hami.io/vgpu-devices-to-allocate"].endswith(",NVIDIA,3000,30:;")
            text = _ask(port, "/metrics")[1].decode()
            assert 'hami_gpu_shared_count{node="n"' in text
            assert "gpuslice_extender_reservations" in text
        events = [json.loads(line)["event"] for line in said.read_text().splitlines()]
        assert events.count("pod filtered") == 1
        assert events.count("pod bound") == 1
        assert events[-1] == "extender ended"
        client.close()


def test_what_cannot_start_says_why(tmp_path: Path) -> None:
    """In one line, without a traceback."""
    words = [sys.executable, "-m", "extender", "--kubeconfig", str(tmp_path / "none")]
    finished = subprocess.run(words, capture_output=True, text=True, check=False)  # noqa: S603
    assert finished.returncode == 1
    assert json.loads(finished.stderr)["event"] == "extender not started"
