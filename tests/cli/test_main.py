"""The `gpuslice` command finds its commands, and carries only what the chosen one needs."""

import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
import yaml

from cli.extras import needing
from tests.cli.convert.running import a_pod


def run(*words: str) -> subprocess.CompletedProcess[str]:
    """Run `gpuslice` as a process."""
    return subprocess.run(  # noqa: S603
        [sys.executable, "-m", "cli.main", *words], capture_output=True, check=False, text=True
    )


def test_help_names_every_command() -> None:
    """Somebody who types `gpuslice --help` sees what there is."""
    said = run("--help").stdout
    assert all(command in said for command in ("node-agent", "discover", "demo", "explain"))


def test_the_node_agent_explains_its_settings() -> None:
    """Every flag of the agent has a description."""
    finished = run("node-agent", "--help")
    assert finished.returncode == 0
    assert "--shares-per-gpu" in finished.stdout
    assert "how many claims may share one GPU" in " ".join(finished.stdout.split())


def test_a_setting_that_is_missing_is_named() -> None:
    """The agent does not start without a node, and says in one line what to give."""
    finished = run("node-agent")
    assert finished.returncode == 2
    assert "--node-name" in finished.stderr
    assert len(finished.stderr.splitlines()) <= 2


def test_the_command_that_runs_the_agent_loads_no_terminal_library() -> None:
    """What runs on every node must stay small."""
    program = "import sys, cli.main; print([n for n in ('rich', 'yaml') if n in sys.modules])"
    finished = subprocess.run(  # noqa: S603
        [sys.executable, "-c", program], capture_output=True, check=True, text=True
    )
    assert finished.stdout.strip() == "[]"


_DEMO = "extender,sim,webhook"


@pytest.mark.parametrize(
    ("words", "package", "said"),
    [
        (("demo",), "aiohttp", f"aiohttp is not installed; install `gpuslice[{_DEMO}]`"),
        (("demo",), "fastapi", f"fastapi is not installed; install `gpuslice[{_DEMO}]`"),
        (("convert", "-"), "yaml", "yaml is not installed; install `gpuslice[webhook]`"),
        (("convert", "-"), "jsonpatch", "jsonpatch is not installed; install `gpuslice[webhook]`"),
        (("webhook", "--namespace=gpu"), "fastapi", "fastapi is not installed; install"),
        (("webhook", "--help"), "cryptography", "cryptography is not installed; install"),
    ],
)
def test_a_missing_extra_is_named(words: tuple[str, ...], package: str, said: str) -> None:
    """One line says what to install, in the place of a traceback."""
    program = f"""
import sys
sys.modules[{package!r}] = None
from cli.main import main
sys.exit(main({list(words)!r}))
"""
    finished = subprocess.run(  # noqa: S603
        [sys.executable, "-c", program], capture_output=True, check=False, text=True, input=""
    )
    assert finished.returncode == 2
    assert finished.stdout == ""
    (line,) = finished.stderr.splitlines()
    assert line.startswith(f"error: {said}")


def test_a_module_of_ours_that_is_missing_is_a_mistake() -> None:
    """It is no extra that somebody forgot."""
    with pytest.raises(ModuleNotFoundError), needing("webhook"):
        import_module("cli.no_such_module")


# With it a large text is written at one go, and whether that failed is lost.
BUFFERED = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}


@pytest.mark.parametrize("more", [(), ("--json",)])
@pytest.mark.parametrize(("pods", "reads"), [(200, True), (1, False)])
def test_a_reader_that_has_enough_is_no_failure(
    tmp_path: Path, more: tuple[str, ...], *, pods: int, reads: bool
) -> None:
    """`gpuslice convert ... | head` prints no traceback, however much is left in the buffer."""
    file = tmp_path / "pods.yaml"
    items = [a_pod(f"app-{number}", gpu="1", gpumem="3000") for number in range(pods)]
    file.write_text(yaml.safe_dump_all(items))
    with subprocess.Popen(  # noqa: S603
        [sys.executable, "-m", "cli.main", "convert", str(file), *more],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=BUFFERED,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert not reads or process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait() == 141
