"""Flags, environment and what is said about mistakes."""

import os
import subprocess
import sys
from typing import Annotated

import pytest
from pydantic import Field

from kube.settings import BaseProgramSettings, Names


class Settings(BaseProgramSettings):
    """Serve the node's GPUs."""

    node_name: Annotated[str, Field(description="Name of the node.")]
    shares_per_gpu: Annotated[int, Field(ge=1, le=128, description="Shares of each GPU.")] = 10
    kubeconfig: Annotated[str | None, Field(description="File to use outside of a pod.")] = None
    log_json: Annotated[bool, Field(description="Log JSON lines.")] = True
    trusted_namespaces: Annotated[Names, Field(description="Namespaces.")] = ()


def read(*arguments: str) -> Settings:
    """Read *arguments* in this process' environment, which holds no variables of ours."""
    assert not any(name.startswith("GPUSLICE_") for name in os.environ)
    return Settings.from_arguments(arguments, program="gpuslice plugin")


def test_flags_are_kebab_case_and_the_rest_is_default() -> None:
    """Underscores become dashes."""
    settings = read("--node-name", "n", "--shares-per-gpu=4", "--no-log-json")
    assert (settings.node_name, settings.shares_per_gpu, settings.log_json) == ("n", 4, False)
    assert (settings.kubeconfig, settings.trusted_namespaces) == (None, ())


def test_names_may_be_repeated_or_joined() -> None:
    """Both ways of giving several mean the same."""
    joined = read("--node-name", "n", "--trusted-namespaces", "a, b")
    repeated = read("--node-name", "n", "--trusted-namespaces", "a", "--trusted-namespaces", "b")
    assert joined.trusted_namespaces == repeated.trusted_namespaces == ("a", "b")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "gpuslice plugin: --node-name: not given: field required\n"),
        (
            ("--node-name", "n", "--shares-per-gpu", "0"),
            "gpuslice plugin: --shares-per-gpu: 0: input should be greater than or equal to 1\n",
        ),
        (
            ("--shares-per-gpu", "200"),
            (
                "gpuslice plugin: --node-name: not given: field required\n"
                "gpuslice plugin: --shares-per-gpu: 200: "
                "input should be less than or equal to 128\n"
            ),
        ),
    ],
)
def test_each_mistake_is_one_line(
    arguments: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The flag, its value and what is allowed, and status 2."""
    with pytest.raises(SystemExit) as caught:
        read(*arguments)
    assert caught.value.code == 2
    assert capsys.readouterr().err == said


def test_an_unknown_flag_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """Status 2 and its name."""
    with pytest.raises(SystemExit) as caught:
        read("--node-name", "n", "--node-nam", "m", "--bogus")
    assert caught.value.code == 2
    assert "--bogus" in capsys.readouterr().err


def test_help_comes_from_the_descriptions(capsys: pytest.CaptureFixture[str]) -> None:
    """Every flag with its sentence and default."""
    with pytest.raises(SystemExit) as caught:
        read("--help")
    assert caught.value.code == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "usage: gpuslice plugin" in shown
    assert "Serve the node's GPUs." in shown
    assert "Shares of each GPU. (default: 10)" in shown
    assert "Name of the node. (required)" in shown


def test_the_environment_stands_in_for_flags() -> None:
    """A flag goes before its variable."""
    program = (
        "from tests.kube.test_settings import Settings\n"
        "print(Settings.from_arguments(['--shares-per-gpu', '3'], program='p')"
        ".model_dump_json())"
    )
    environ = {
        **os.environ,
        "GPUSLICE_NODE_NAME": "n",
        "GPUSLICE_SHARES_PER_GPU": "7",
        "GPUSLICE_TRUSTED_NAMESPACES": "a,b",
        "GPUSLICE_LOG_JSON": "false",
        "GPUSLICE_SERVICE_HOST": "10.0.0.1",
    }
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", program], env=environ, capture_output=True, text=True, check=True
    )
    settings = Settings.model_validate_json(done.stdout)
    assert (settings.node_name, settings.shares_per_gpu) == ("n", 3)
    assert (settings.trusted_namespaces, settings.log_json) == (("a", "b"), False)
