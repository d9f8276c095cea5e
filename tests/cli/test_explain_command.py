"""`gpuslice explain`, run as a command on folders of dumps and on a live API server."""

import argparse
import io
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft202012Validator

from cli import explain_command
from kube import paths
from tests.cli.explain.schema import SCHEMA
from tests.fakes.api_server import ServerThread, serving
from tests.sim.explain.world import (
    CLAIM,
    NAMESPACE,
    POD,
    Json,
    asking,
    claim,
    device_class,
    gpu,
    holding,
    node,
    pod,
    published,
)

BUSY = {"memory": "30Gi", "shares": "1"}


def command(*words: str) -> int:
    """Run the command with these words and return its exit status."""
    parser = argparse.ArgumentParser()
    explain_command.add_parser(parser.add_subparsers())
    args = parser.parse_args(["explain", *words])
    status = args.run(args)
    assert isinstance(status, int)
    return status


def waiting() -> list[Json]:
    """Return a cluster in which the pod waits for memory."""
    return [
        node("a"),
        published("a", gpu("g0"), gpu("g1")),
        node("b"),
        device_class("share"),
        pod(),
        claim(asking(capacity={"memory": "20Gi"})),
        holding("one", "a", "g0", capacity=BUSY, pods=("x",)),
        holding("two", "a", "g1", capacity=BUSY | {"memory": "25Gi"}, pods=("y",)),
    ]


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    """Write the waiting cluster as one list."""
    folder = tmp_path / "dump"
    folder.mkdir()
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": waiting()})
    (folder / "all.json").write_text(text)
    return folder


def test_a_waiting_pod_is_status_1(dump: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A script tells by the exit status that the pod waits; a person reads why."""
    assert command("pod", POD, "--from", str(dump)) == 1
    said = capsys.readouterr()
    assert said.out.startswith("pod default/trainer is pending: no node can serve it")
    assert "request gpu asks for memory 15Gi instead of 20Gi [on a]" in said.out
    assert said.err == ""


def test_what_has_devices_is_status_0(dump: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An allocated claim waits for nothing."""
    assert command("claim", "one", "--from", str(dump)) == 0
    assert "gpu.example.com/a/g0, memory 30Gi" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("pod", "nobody"), "there is no pod default/nobody"),
        (("claim", CLAIM, "-n", "elsewhere"), "there is no claim elsewhere/want"),
    ],
)
def test_what_is_not_there_is_status_2(
    dump: Path, words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A slip in a name is told in one sentence."""
    assert command(*words, "--from", str(dump)) == 2
    output = capsys.readouterr()
    assert (output.out, output.err) == ("", f"error: {said}\n")


def test_outside_of_a_cluster_a_source_is_needed(capsys: pytest.CaptureFixture[str]) -> None:
    """Without `--from` the command takes the cluster that it runs in, if it does."""
    assert command("pod", POD) == 2
    assert "not in a pod" in capsys.readouterr().err


def test_json_keeps_to_its_schema(dump: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Programs can rely on the fields that the documentation names."""
    assert command("pod", POD, "--from", str(dump), "--json") == 1
    found = json.loads(capsys.readouterr().out)
    Draft202012Validator(SCHEMA).validate(found)
    assert found["verdict"] == "pending"
    (first, second) = next(it for it in found["nodes"] if it["node"] == "a")["devices"]
    assert first["refusal"]["code"] == "MemoryInsufficient"
    assert second["holders"] == [{"claim": "default/two", "pods": ["y"], "amount": "25Gi"}]
    assert [it["code"] for it in found["changes"]] == ["LowerCapacity", "WaitForClaim"]
    assert found["nodes_total"] == 2


def test_release_and_gates_are_those_of_the_cluster_unless_they_are_named(
    dump: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A release that has shares off by default has them on where its server keeps them."""

    def said(*words: str) -> Json:
        assert command("pod", POD, "--from", str(dump), "--json", *words) == 1
        found: Json = json.loads(capsys.readouterr().out)
        return found

    assert (said()["release"], said()["gates"]) == ("1.37", {})
    older = said("--release", "1.34")
    assert (older["release"], older["gates"]) == ("1.34", {"DRAConsumableCapacity": True})
    assert older["reasons"] == []
    off = said("--release", "1.34", "--feature-gates", "DRAConsumableCapacity=false")
    assert [it["code"] for it in off["reasons"]] == ["CapacityUnsupported"]


@pytest.mark.parametrize("gates", ["DRANonsense=true", "DRAConsumableCapacity", "a=b"])
def test_an_unknown_gate_is_refused(
    dump: Path, gates: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A slip in a gate's name must not change the rules in silence."""
    assert command("pod", POD, "--from", str(dump), "--feature-gates", gates) == 2
    assert "gate" in capsys.readouterr().err


def test_a_terminal_gets_colours(dump: Path) -> None:
    """The words are the same, and nothing in them is taken for markup."""

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    screen = Terminal()
    with redirect_stdout(screen):
        command("pod", POD, "--from", str(dump))
    plain = io.StringIO()
    with redirect_stdout(plain):
        command("pod", POD, "--from", str(dump))
    assert "\x1b[1;31mpod default/trainer is pending" in screen.getvalue()
    assert re.sub(r"\x1b\[[\d;]*m", "", screen.getvalue()) == plain.getvalue()


def test_a_missing_extra_is_said(dump: Path) -> None:
    """Without the packages of the simulation the command names the extra that has them."""
    program = (
        "import sys; sys.modules['cel_expr_python'] = None; from cli.main import main;"
        f"sys.exit(main(['explain', 'pod', 'x', '--from', {str(dump)!r}]))"
    )
    finished = subprocess.run(  # noqa: S603
        [sys.executable, "-c", program], capture_output=True, check=False, text=True
    )
    assert finished.returncode == 2
    assert "install `gpuslice[sim]`" in finished.stderr


@pytest.fixture(scope="module")
def server() -> Iterator[ServerThread]:
    """Run an API server with the waiting cluster."""
    with serving() as running:
        for item in waiting():
            _create(running, item)
        yield running


def _create(running: ServerThread, item: Json) -> None:
    api = running.server.api
    plurals = {
        "Node": "nodes",
        "Pod": "pods",
        "ResourceSlice": "resourceslices",
        "DeviceClass": "deviceclasses",
        "ResourceClaim": "resourceclaims",
    }
    plural = plurals[item["kind"]]
    body = {key: value for key, value in item.items() if key != "status"}
    if plural == "pods":
        body["spec"] = {**body["spec"], "containers": [{"name": "main", "image": "none"}]}
    made = running.run(api.create(plural, body, item["metadata"].get("namespace", "")))
    if "status" in item and plural == "resourceclaims":
        running.run(api.update(plural, {**made, "status": item["status"]}, subresource="status"))


def test_a_dump_is_explained_like_the_cluster(
    server: ServerThread, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The kubeconfig of a cluster and what is printed of it lead to the same document."""
    kubeconfig, folder = tmp_path / "kubeconfig", tmp_path / "dump" / "below"
    server.call(server.server.write_kubeconfig, kubeconfig)
    folder.mkdir(parents=True)
    client = server.client()
    for name, path in (
        ("n", paths.nodes()),
        ("p", paths.pods(NAMESPACE)),
        ("c", paths.resource_claims()),
        ("s", paths.resource_slices()),
        ("k", paths.device_classes()),
        ("v", paths.namespaces()),
    ):
        listed = json.loads(client.get(path))
        if name in "nps":
            (folder / f"{name}.yml").write_text(yaml.safe_dump_all([listed, {"no": "object"}]))
        else:
            (folder / name).write_text(json.dumps(listed))
    version = {"serverVersion": {"gitVersion": client.server_version()}}
    (folder / "version.json").write_text(json.dumps(version))
    said = []
    for source in (kubeconfig, tmp_path / "dump"):
        assert command("pod", POD, "-n", NAMESPACE, "--from", str(source), "--json") == 1
        said.append(json.loads(capsys.readouterr().out))
    assert said[0] == said[1]
    assert said[0]["notes"] == []


def test_explaining_reads_and_writes_nothing(
    server: ServerThread, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The server's journal has only reads of what the documentation names."""
    kubeconfig = tmp_path / "kubeconfig"
    server.call(server.server.write_kubeconfig, kubeconfig, "reader")
    before = len(server.call(lambda: server.server.requests))
    assert command("claim", CLAIM, "--from", str(kubeconfig)) == 1
    made = server.call(lambda: server.server.requests)[before:]
    assert {it.verb for it in made} <= {"get", "list"}
    assert {it.status for it in made} <= {200, 404}
    capsys.readouterr()


@pytest.mark.parametrize("path_part", ["/nodes", "/resourceslices", "/pods"])
def test_a_right_that_is_missing_is_named(
    server: ServerThread, tmp_path: Path, path_part: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Who may not list what is needed reads which right that is."""
    kubeconfig = tmp_path / "kubeconfig"
    server.call(server.server.write_kubeconfig, kubeconfig)
    server.call(server.server.fail_next, 1, 403, path_part=path_part)
    assert command("pod", POD, "--from", str(kubeconfig)) == 2
    assert f"needs the right to list {path_part[1:]}" in capsys.readouterr().err
    server.call(server.server.clear_faults)


def test_what_is_only_wished_for_is_a_note(
    server: ServerThread, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without the right to read templates the explanation is made, and says what it lacks."""
    kubeconfig = tmp_path / "kubeconfig"
    server.call(server.server.write_kubeconfig, kubeconfig)
    server.call(server.server.fail_next, 1, 403, path_part="resourceclaimtemplates")
    assert command("pod", POD, "--from", str(kubeconfig), "--json") == 1
    (note,) = json.loads(capsys.readouterr().out)["notes"]
    assert note.startswith("ResourceClaimTemplates are not known: 403")
    server.call(server.server.clear_faults)
