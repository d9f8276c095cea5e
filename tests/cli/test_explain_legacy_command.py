"""`gpuslice explain pod` for pods of HAMi's path, on folders of dumps and on a live API server."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft202012Validator

from kube import paths
from tests.cli.explain.legacyworld import (
    NAMESPACE,
    POD,
    busy_cluster,
    node,
    quota,
    want,
)
from tests.cli.explain.schema import SCHEMA
from tests.cli.test_explain_command import command
from tests.extender.statemachine import container, gpu
from tests.fakes.api_server import ServerThread, serving
from tests.sim.explain.world import Json

QUOTAS = paths.resource("v1", "resourcequotas", namespace=NAMESPACE)


def cluster() -> list[Json]:
    """Return a cluster in which the pod waits for memory and for quota."""
    return [*busy_cluster(), quota(gpumem="30000")]


def dumped(folder: Path, items: list[Json]) -> Path:
    """Write *items* as one list."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "all.json").write_text(json.dumps({"kind": "List", "items": items}))
    return folder


def test_a_waiting_pod_is_status_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Slices and classes that a folder lacks are nothing to a pod that has no claim."""
    folder = dumped(tmp_path, cluster())
    assert command("pod", POD, "-n", NAMESPACE, "--from", str(folder)) == 1
    said = capsys.readouterr()
    assert said.out.startswith("pod team/want is pending: no node can serve it (rules of HAMi's")
    assert "note:" not in said.out
    assert "ResourceQuotaNotFit: nvidia.com/gpumem: asked 8000 MiB; left 4000 MiB" in said.out
    assert said.err == ""


def test_a_pod_that_fits_is_status_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A script tells by the exit status."""
    folder = dumped(tmp_path, [node("a", gpu("GPU-a")), want(container(gpu=1))])
    assert command("pod", POD, "-n", NAMESPACE, "--from", str(folder)) == 0
    assert "gets: container main: NVIDIA/a/GPU-a" in capsys.readouterr().out


def test_json_keeps_to_its_schema(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Programs read the same fields as of claims, and who decides."""
    folder = dumped(tmp_path, cluster())
    assert command("pod", POD, "-n", NAMESPACE, "--from", str(folder), "--json") == 1
    found = json.loads(capsys.readouterr().out)
    Draft202012Validator(SCHEMA).validate(found)
    assert found["decided_by"] == "annotations"
    assert {each["refusal"]["code"] for each in found["nodes"]} == {
        "CannotAllocate",
        "NodeUnregistered",
        "NodeUnschedulable",
    }


def test_the_scheduler_and_the_resources_may_have_other_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What an administrator has told HAMi otherwise is told to the command as well."""
    asking = {"name": "main", "resources": {"limits": {"example.com/vgpu": "1"}}}
    folder = dumped(tmp_path / "dump", [node("a", gpu("GPU-a")), want(asking, scheduler="ours")])
    config = tmp_path / "device-config.yaml"
    config.write_text(
        yaml.safe_dump({"nvidia": {"resourceCountName": "example.com/vgpu", "defaultGPUNum": 1}})
    )
    words = ("pod", POD, "-n", NAMESPACE, "--from", str(folder), "--device-config", str(config))
    assert command(*words) == 1
    assert "OtherScheduler: ours;" in capsys.readouterr().out
    config.write_text("nvidia: [")
    assert command(*words) == 2
    assert "--device-config" in capsys.readouterr().err


def test_the_scheduler_may_have_another_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A pod of the scheduler that is named is the protocol's."""
    folder = dumped(tmp_path, [node("a", gpu("GPU-a")), want(container(gpu=1), scheduler="ours")])
    words = ("pod", POD, "-n", NAMESPACE, "--from", str(folder))
    assert command(*words, "--legacy-scheduler", "ours") == 0
    assert "fits on node a" in capsys.readouterr().out


def test_a_missing_extra_is_said(tmp_path: Path) -> None:
    """Without the packages of the extender the command names the extra that has them."""
    folder = dumped(tmp_path, cluster())
    words = ["explain", "pod", POD, "-n", NAMESPACE, "--from", str(folder)]
    program = (
        "import sys; sys.modules['msgspec'] = None; from cli.main import main;"
        f"sys.exit(main({words!r}))"
    )
    finished = subprocess.run(  # noqa: S603
        [sys.executable, "-c", program], capture_output=True, check=False, text=True
    )
    assert finished.returncode == 2
    assert "install `gpuslice[extender]`" in finished.stderr


@pytest.fixture(scope="module")
def server() -> Iterator[ServerThread]:
    """Run an API server of an older release with the cluster."""
    with serving("1.34") as running:
        namespace = {"metadata": {"name": NAMESPACE}}
        running.run(running.server.api.create("namespaces", namespace, ""))
        for item in cluster():
            _create(running, item)
        yield running


def _create(running: ServerThread, item: Json) -> None:
    """Create *item*; what a server takes by its status alone follows, and the kubelet's phase."""
    api = running.server.api
    plural = {"Node": "nodes", "Pod": "pods", "ResourceQuota": "resourcequotas"}[item["kind"]]
    body = {key: value for key, value in item.items() if key != "status"}
    if plural == "pods":
        containers = [{**each, "image": "none"} for each in body["spec"]["containers"]]
        body["spec"] = {**body["spec"], "containers": containers}
    made = running.run(api.create(plural, body, item["metadata"].get("namespace", "")))
    if "status" in item:
        changed = {**made, "status": item["status"]}
        running.run(api.update(plural, changed, subresource="status"))


def test_a_dump_is_explained_like_the_cluster(
    server: ServerThread, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The kubeconfig of a cluster and what is printed of it lead to the same document."""
    kubeconfig, folder = tmp_path / "kubeconfig", tmp_path / "dump"
    server.call(server.server.write_kubeconfig, kubeconfig)
    folder.mkdir()
    client = server.client()
    for name, path in (("n", paths.nodes()), ("p", paths.pods()), ("q", QUOTAS)):
        (folder / f"{name}.json").write_bytes(client.get(path))
    version = {"serverVersion": {"gitVersion": client.server_version()}}
    (folder / "version.json").write_text(json.dumps(version))
    said = []
    for source in (kubeconfig, folder):
        assert command("pod", POD, "-n", NAMESPACE, "--from", str(source), "--json") == 1
        said.append(json.loads(capsys.readouterr().out))
    assert said[0] == said[1]
    assert said[0]["release"] == "1.34"
    assert [it["code"] for it in said[0]["changes"]] == ["LowerMemory", "WaitForPod"]
    assert [it["code"] for it in said[0]["reasons"]] == ["ResourceQuotaNotFit"]


def test_a_cluster_without_claims_is_enough(
    server: ServerThread, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where the server has no resource.k8s.io at all, the protocol's pods are explained."""
    kubeconfig = tmp_path / "kubeconfig"
    server.call(server.server.write_kubeconfig, kubeconfig, "reader")
    server.call(server.server.fail_next, 50, 404, path_part="resource.k8s.io")
    before = len(server.call(lambda: server.server.requests))
    assert command("pod", POD, "-n", NAMESPACE, "--from", str(kubeconfig), "--json") == 1
    server.call(server.server.clear_faults)
    found = json.loads(capsys.readouterr().out)
    assert (found["decided_by"], found["notes"]) == ("annotations", [])
    made = server.call(lambda: server.server.requests)[before:]
    assert {it.verb for it in made} <= {"get", "list"}


def test_pods_that_cannot_be_listed_are_a_note(
    server: ServerThread, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Who may list pods of one namespace alone reads that others may hold more."""
    kubeconfig = tmp_path / "kubeconfig"
    server.call(server.server.write_kubeconfig, kubeconfig)
    server.call(server.server.fail_next, 1, 403, path_part="/api/v1/pods")
    assert command("pod", POD, "-n", NAMESPACE, "--from", str(kubeconfig), "--json") == 1
    server.call(server.server.clear_faults)
    (note,) = json.loads(capsys.readouterr().out)["notes"]
    assert note.startswith("what pods of other namespaces hold is not known: 403")


def test_quotas_that_cannot_be_read_are_a_note(
    server: ServerThread, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without the right to list quotas the explanation is made, and says what it lacks."""
    kubeconfig = tmp_path / "kubeconfig"
    server.call(server.server.write_kubeconfig, kubeconfig)
    server.call(server.server.fail_next, 1, 403, path_part="resourcequotas")
    assert command("pod", POD, "-n", NAMESPACE, "--from", str(kubeconfig), "--json") == 1
    server.call(server.server.clear_faults)
    found = json.loads(capsys.readouterr().out)
    (note,) = found["notes"]
    assert note.startswith("ResourceQuotas are not known: 403")
    assert found["reasons"] == []


def test_a_quota_that_is_spoiled_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One that cannot be read is left out with a note, and bounds nothing."""
    spoiled = quota(gpumem="1")
    spoiled["metadata"]["namespace"] = ["team"]
    folder = dumped(tmp_path, [node("a", gpu("GPU-a")), want(container(gpu=1)), spoiled])
    assert command("pod", POD, "-n", NAMESPACE, "--from", str(folder)) == 0
    assert "note: ResourceQuota bound is left out: metadata.namespace" in capsys.readouterr().out
