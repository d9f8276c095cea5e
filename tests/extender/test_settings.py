"""The extender's flags."""

import pytest

from extender.settings import ExtenderSettings


def _read(*flags: str) -> ExtenderSettings:
    return ExtenderSettings.from_arguments(flags, program="gpuslice-extender")


def test_defaults_are_those_of_a_pod_beside_kube_scheduler() -> None:
    """It listens to nobody outside the pod, and waits for less time than it is waited for."""
    settings = _read()
    assert (settings.address, settings.port) == ("127.0.0.1", 9444)
    assert settings.node_lock_retry_timeout_s < settings.http_timeout_s
    assert settings.own_hostname
    assert settings.body_bytes == 64 * 1024 * 1024


def test_flags_are_kebab_case() -> None:
    """Lists take commas, as everywhere."""
    settings = _read("--node-lock-expire-s", "60", "--refit-accounts", "a,b", "--hostname", "s-1")
    assert settings.node_lock_expire_s == 60
    assert settings.refit_accounts == ("a", "b")
    assert settings.own_hostname == "s-1"
    assert _read("--gpu-scheduler-policy", "numa, spread").gpu_scheduler_policy == "numa, spread"


@pytest.mark.parametrize(
    "flags",
    [
        ("--node-lock-retry-timeout-s", "30"),
        ("--wait-ready-s", "31"),
        ("--port", "70000"),
        ("--body-mib", "0"),
        ("--node-scheduler-policy", "random"),
        ("--gpu-scheduler-policy", "binpack,random"),
        ("--no-such", "1"),
    ],
)
def test_mistakes_end_the_start(flags: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    """Waiting for longer than anybody listens is such a mistake."""
    with pytest.raises(SystemExit) as ended:
        _read(*flags)
    assert ended.value.code == 2
    assert "gpuslice-extender" in capsys.readouterr().err
