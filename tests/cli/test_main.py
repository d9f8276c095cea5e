"""The `gpuslice` command finds its commands, and carries only what the chosen one needs."""

import subprocess
import sys


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
