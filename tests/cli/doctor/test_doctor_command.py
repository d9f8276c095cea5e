"""`gpuslice doctor`, run as a command."""

from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from cli.doctor.cluster.checks import CHECKS
from cli.doctor.node.checks import CHECKS as NODE_CHECKS
from cli.main import main
from tests.cli.doctor.front import as_json, write_kubeconfig
from tests.cli.doctor.nodes import write
from tests.cli.doctor.world import CLASSES, NODES, SLICES, classes, node, part, pods, world
from tests.cli.doctor.world import published as slice_of

DOCUMENT = Path(__file__).parents[3] / "docs" / "doctor.md"
TEXT = {"type": "string"}
SCHEMA = {
    "type": "object",
    "required": ["format", "exit_status", "summary", "checks"],
    "additionalProperties": False,
    "properties": {
        "format": {"const": 1},
        "exit_status": {"enum": [0, 1, 2, 3]},
        "summary": {"type": "object", "additionalProperties": {"type": "integer"}},
        "checks": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["id", "half", "about", "status", "seen", "remedy", "details"],
                "properties": {
                    "id": TEXT,
                    "half": {"enum": ["cluster", "node", "preflight"]},
                    "about": TEXT,
                    "status": {"enum": ["ok", "warning", "failed", "unknown", "skipped"]},
                    "seen": {"type": "string", "minLength": 1},
                    "remedy": TEXT,
                    "details": {"type": "array", "items": TEXT},
                },
            },
        },
    },
}


@pytest.fixture(autouse=True)
def _nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Hide what this machine has of clusters."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)


def test_both_halves_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every check of both halves is in the document, whose form does not change."""
    with world() as at:
        at.put(CLASSES, *classes())
        at.put(NODES, node("a"))
        at.put(SLICES, slice_of("a"))
        pods(at.front, part("node-agent", "one"))
        config = write_kubeconfig(tmp_path / "config", at.front.url)
        host = write(tmp_path / "host", {"/etc/containerd/config.toml": "version = 3\n"})
        words = ("--kubeconfig", str(config), "--host-root", str(host), "-o", "json")
        capsys.readouterr()
        status = main(["doctor", *words])
    document = as_json(capsys.readouterr().out)
    Draft202012Validator(SCHEMA).validate(document)
    ids = [each["id"] for each in document["checks"]]
    assert ids == [*(it.id for it in CHECKS), *(it.id for it in NODE_CHECKS)]
    assert document["exit_status"] == status == 2
    assert sum(document["summary"].values()) == len(ids)


def test_well_cluster_is_status_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Warnings count with --strict alone; a table has a line for each check."""
    with world() as at:
        at.put(CLASSES, *classes())
        at.put(NODES, node("a"))
        at.put(SLICES, slice_of("a"))
        pods(at.front, part("node-agent", "one"))
        config = write_kubeconfig(tmp_path / "config", at.front.url)
        words = ["doctor", "--only", "cluster", "--kubeconfig", str(config)]
        capsys.readouterr()
        assert main(words) == 0
        said = capsys.readouterr().out
        assert main([*words, "--strict"]) == 1
    for check in CHECKS:
        assert f"\n{check.id} " in said
    assert max(map(len, said.splitlines())) <= 100


def test_server_that_is_away(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One request is tried, all checks say why, and nothing is well."""
    with world() as at:
        url = at.front.url
    config = write_kubeconfig(tmp_path / "config", url)
    words = ["doctor", "--only", "cluster", "--kubeconfig", str(config)]
    assert main(words) == 3
    said = capsys.readouterr().out
    assert f"{len(CHECKS)} checks" in said
    assert "refused" in said
    assert main([*words, "--preflight", "-o", "json"]) == 3
    assert as_json(capsys.readouterr().out)["checks"][-1]["id"] == "preflight"


def test_no_cluster_and_no_node(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On a machine that is neither in a cluster nor a node nothing can be asked."""
    empty = tmp_path / "empty"
    empty.mkdir()
    options = ("--host-root", str(empty), "--kubelet-root", "/nowhere/kubelet")
    assert main(["doctor", *options, "-o", "json"]) == 3
    summary = as_json(capsys.readouterr().out)["summary"]
    assert (summary["unknown"], summary["skipped"]) == (len(CHECKS), len(NODE_CHECKS))


def test_node_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With --only node the checks run wherever that is, and no cluster is asked for."""
    assert main(["doctor", "--only", "node", "--host-root", str(tmp_path), "-o", "json"]) == 2
    document = as_json(capsys.readouterr().out)
    assert {each["half"] for each in document["checks"]} == {"node"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--only", "node", "--preflight"), "a preflight needs the cluster"),
        (("--node", "a"), "add --preflight"),
    ],
)
def test_words_that_do_not_go_together(
    words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A slip is told before anything is asked."""
    assert main(["doctor", *words]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("value", ["0", "-1", "nan", "x"])
def test_times_are_positive(value: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A timeout that is none is refused."""
    with pytest.raises(SystemExit):
        main(["doctor", "--timeout-s", value])
    assert "is no number of seconds" in capsys.readouterr().err


def test_credentials_are_not_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What a kubeconfig holds does not come out, whatever is wrong with it."""
    config = write_kubeconfig(tmp_path / "config", "http://me:hidden-word@127.0.0.1:1")
    assert main(["doctor", "--only", "cluster", "--kubeconfig", str(config)]) == 3
    assert "hidden-word" not in capsys.readouterr().out


def test_document_names_each_check() -> None:
    """docs/doctor.md says of every check what it means, and of no other."""
    text = DOCUMENT.read_text()
    ids = [*(it.id for it in CHECKS), *(it.id for it in NODE_CHECKS), "preflight"]
    rows = [line.split("`")[1] for line in text.splitlines() if line.startswith("| `")]
    assert [each for each in rows if each in ids] == ids
