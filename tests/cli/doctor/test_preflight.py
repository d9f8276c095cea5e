"""Preflights on the simulated cluster, with a real node agent; each failure leaves nothing."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cli.demo import older, oldernode
from cli.demo.agents import Agent
from cli.demo.programs import free_port
from cli.demo.scenes import manifests
from cli.doctor.model import Status
from cli.doctor.preflight.objects import END, Way, told
from kube import paths
from sim.cluster import Cluster
from sim.node import NodeSpec
from tests.cli.doctor.front import Front, fronting, write_kubeconfig
from tests.cli.doctor.preflighting import NODE, Stage, staged
from tests.cli.doctor.world import DAEMONSETS, daemonset
from tests.patience import eventually


@pytest.fixture(scope="module")
def shared() -> Iterator[Stage]:
    """Return a stage for tests that leave nothing on it."""
    with staged() as stage:
        yield stage


@pytest.fixture
def stage(shared: Stage) -> Iterator[Stage]:
    """Return the stage, with its front as it was."""
    yield shared
    shared.front.refused.clear()
    shared.front.items = {DAEMONSETS: []}
    shared.front.log_of = shared.log_of
    shared.env.clear()
    assert shared.left() == []


def test_limit_arrives(stage: Stage) -> None:
    """A pod with a share tells the limit that the agent's CDI spec has set."""
    finding = stage.try_it()
    assert finding.about == NODE
    assert finding.verdict.status is Status.OK, finding
    said = "a pod with a share of a GPU ran and has CUDA_DEVICE_MEMORY_LIMIT_0=512m"
    assert finding.verdict.seen == said
    made = [path for method, path in stage.front.requests if method == "POST"]
    assert made[-2:] == [paths.resource_claims("default"), paths.pods("default")]


def test_agents_own_image(stage: Stage) -> None:
    """Without an image the DaemonSet's is taken, and told by Python; without both, nothing runs."""
    assert stage.try_it(image=None).verdict.status is Status.UNKNOWN
    labels = {"app.kubernetes.io/name": "gpuslice", "app.kubernetes.io/component": "node-agent"}
    stage.front.serve(DAEMONSETS, daemonset("agents", "gpuslice:1", labels=labels))
    seen: list[Any] = []

    def log(name: str) -> str:
        seen.append(json.loads(stage.client.get(paths.pods("default", name)))["spec"])
        return stage.log_of(name)

    stage.front.log_of = log
    assert stage.try_it(image=None).verdict.status is Status.OK
    (container,) = seen[0]["containers"]
    assert (container["image"], container["command"][:2]) == ("gpuslice:1", ["python3", "-c"])


@pytest.mark.parametrize(
    ("value", "said"),
    [("4m", "with CUDA_DEVICE_MEMORY_LIMIT_0=4m, not 512m"), ("", "=, not 512m")],
)
def test_other_limit(value: str, said: str, stage: Stage) -> None:
    """What replaced the limit is shown."""
    stage.env["CUDA_DEVICE_MEMORY_LIMIT_0"] = value
    verdict = stage.try_it().verdict
    assert (verdict.status, said in verdict.seen) == (Status.FAILED, True)


def test_no_limit(stage: Stage) -> None:
    """A container without the variable means a runtime that applied no CDI spec."""
    stage.front.log_of = lambda _: f"PATH=/bin\n{END}\n"
    verdict = stage.try_it().verdict
    assert (verdict.status, "ran without CUDA" in verdict.seen) == (Status.FAILED, True)
    assert "runtime-cdi" in verdict.remedy


def test_log_that_cannot_be_read(stage: Stage) -> None:
    """A container that runs and of which nothing can be read is a failure with the reason."""
    stage.front.refused.append(("GET", "/log"))
    verdict = stage.try_it(timeout_s=6).verdict
    assert verdict.status is Status.FAILED
    assert "nothing can be read of it: 403" in verdict.seen


def test_no_room(stage: Stage) -> None:
    """A pod that gets no place is explained."""
    templates = paths.resource_claim_templates("default")
    template, pod = manifests("whole-gpu")
    assert (template["kind"], pod["kind"]) == ("ResourceClaimTemplate", "Pod")
    stage.client.create(templates, template)
    stage.client.create(paths.pods("default"), pod)
    path = paths.pods("default", pod["metadata"]["name"])
    try:
        eventually(lambda: json.loads(stage.client.get(path))["status"].get("phase") == "Running")
        verdict = stage.try_it(timeout_s=3).verdict
    finally:
        stage.client.delete(path)
        stage.client.delete(f"{templates}/{template['metadata']['name']}")
        eventually(lambda: not stage.left())
    assert verdict.status is Status.FAILED
    assert "got no place" in verdict.seen
    assert any("MemoryInsufficient" in each for each in verdict.details)


def test_node_that_offers_nothing(stage: Stage) -> None:
    """A node that is named and offers no GPU is unknown, and nothing is made."""
    before = len([it for it in stage.front.requests if it[0] == "POST"])
    assert stage.try_it("elsewhere").verdict.status is Status.UNKNOWN
    assert len([it for it in stage.front.requests if it[0] == "POST"]) == before


def test_no_right_to_create(stage: Stage) -> None:
    """Who may create a claim and no pod is told so, and the claim goes again."""
    stage.front.refused.append(("POST", "/pods"))
    verdict = stage.try_it().verdict
    assert (verdict.status, "not allowed" in verdict.seen) == (Status.UNKNOWN, True)


def test_claim_that_is_left(stage: Stage) -> None:
    """What was made before a refusal and cannot be deleted is named beside the refusal."""
    stage.front.refused += [("POST", "/pods"), ("DELETE", "")]
    verdict = stage.try_it(clear_s=0.5).verdict
    stage.front.refused.clear()
    (name,) = stage.left()
    stage.client.delete(paths.resource_claims("default", name))
    assert verdict.details == (f"left behind: resourceclaim default/{name}",)


def test_no_right_to_delete(stage: Stage) -> None:
    """What cannot be deleted is named, so that somebody else can."""
    stage.front.refused.append(("DELETE", ""))
    verdict = stage.try_it(clear_s=1).verdict
    stage.front.refused.clear()
    names = stage.left()
    assert verdict.status is Status.WARNING
    assert names
    assert all(name in verdict.remedy for name in names)
    stage.client.delete(paths.pods("default", names[0]))
    stage.client.delete(paths.resource_claims("default", names[0]))
    eventually(lambda: not stage.left())


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_interrupted(sign: signal.Signals, stage: Stage) -> None:
    """Ctrl-C and SIGTERM end it, with a status of their own, and nothing is left."""
    stage.front.log_of = lambda _: ""
    config = write_kubeconfig(stage.directory / "config", stage.front.url)
    words = ("doctor", "--only", "cluster", "--preflight", "--preflight-image", "busybox")
    command = (sys.executable, "-m", "cli.main", *words, "--kubeconfig", str(config))
    # Whoever runs these tests in the background of a shell ignores SIGINT, and so would the child.
    before = signal.signal(sign, signal.default_int_handler)
    try:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # noqa: S603
    finally:
        signal.signal(sign, before)
    with process:
        eventually(lambda: len(stage.left()) == 2)
        os.kill(process.pid, sign)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, b"", b"interrupted\n")


def by_message(text: str) -> dict[str, Any]:
    """Return the status of a pod whose container has ended with *text* as its message."""
    ended = {"exitCode": 0, "reason": "Completed", "message": text}
    return {"phase": "Succeeded", "containerStatuses": [{"state": {"terminated": ended}}]}


@pytest.mark.parametrize(
    ("status", "found", "said"),
    [
        (by_message(f"CUDA_DEVICE_MEMORY_LIMIT_0=512m\n{END}\n"), Status.OK, "=512m"),
        (by_message("sh: env: not found"), Status.FAILED, "sh: env: not found"),
        (
            {
                "containerStatuses": [
                    {"state": {"waiting": {"reason": "ErrImagePull", "message": "no such image"}}}
                ]
            },
            Status.FAILED,
            "ErrImagePull: no such image",
        ),
        (
            {"phase": "Failed", "reason": "Evicted", "message": "disk"},
            Status.FAILED,
            "Evicted disk",
        ),
        ({"phase": "Pending"}, Status.FAILED, "default-scheduler said nothing about it"),
    ],
)
def test_what_kubelet_says(status: dict[str, Any], found: Status, said: str, stage: Stage) -> None:
    """The message of an ended container is enough; what stands in its way is told."""
    refuse = stage.front.answer
    node = "" if status.get("phase") == "Pending" else NODE

    def answer(request: Any, exchange: Any) -> None:
        name = request.path.rpartition("/")[2]
        if request.method == "GET" and "/pods/gpuslice-preflight-" in request.path:
            if any(it == ("DELETE", request.path) for it in stage.front.requests):
                exchange.status(404, "NotFound", f'pods "{name}" not found')
                return
            spec = {"nodeName": node, "schedulerName": "default-scheduler"}
            exchange.json({"metadata": {"name": name}, "spec": spec, "status": status})
            return
        refuse(request, exchange)

    with serving_instead(answer) as url:
        through = Stage(stage.cluster, Front("", "", url=url), stage.agent, stage.directory)
        verdict = through.try_it(timeout_s=1.5).verdict
    assert (verdict.status, said in verdict.seen) == (found, True), verdict
    eventually(lambda: not stage.left())


@contextmanager
def serving_instead(answer: Callable[[Any, Any], None]) -> Iterator[str]:
    """Serve with *answer*; the address."""
    from tests.fakes.scripted_server import ScriptedServer  # noqa: PLC0415

    with ScriptedServer(answer) as server:
        yield server.url


def test_whole_gpus_of_an_older_server() -> None:
    """Where GPUs are offered whole a whole one is asked for, and its own marker is looked for."""
    with staged(version="1.35") as stage:
        verdict = stage.try_it().verdict
        assert verdict.status is Status.OK, verdict
        assert verdict.seen.endswith("NVIDIA_VISIBLE_DEVICES=void")
        assert stage.left() == []


def test_limits_on_an_older_cluster() -> None:
    """Where the device plugin serves, a pod with limits is placed by the extender, and has them."""
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="g") as name:
        directory = Path(name)
        nodes = [NodeSpec(name=NODE, gpus=("a10",))]
        schedulers = [older.configuration(f"http://127.0.0.1:{port}")]
        with Cluster(directory / "c", nodes, "1.34", schedulers=schedulers) as cluster:
            extender = older._start(cluster.kubeconfig, directory, port)
            more = {"--mode": "device-plugin"}
            agent = Agent.start(cluster.node(NODE), cluster.kubeconfig, directory, more=more)
            try:
                extender.wait_ready(30)
                agent.program.wait_ready(30)
                token = cluster.call(cluster.server.token_for, "admin")
                with fronting(cluster.server.url, token) as front:
                    stage = Stage(cluster, front, agent, directory)
                    front.log_of = stage.log_of
                    verdict = stage.try_it().verdict
                    made = [path for method, path in front.requests if method == "POST"]
                    left = stage.left()
            finally:
                extender.stop()
                oldernode.stop({NODE: agent})
    assert verdict.status is Status.OK, verdict
    assert verdict.seen.startswith("a pod with limits for a GPU ran")
    assert (made, left) == ([paths.pods("default")], [])


def test_only_whole_tales_count() -> None:
    """A log that is still being written is read again."""
    assert told("CUDA_X=1\n") is None
    assert told(f"CUDA_X=1\nodd\n{END}\nlater=2\n") == {"CUDA_X": "1"}
    assert set(Way) == {Way.SHARE, Way.WHOLE, Way.MIG, Way.LIMITS}
