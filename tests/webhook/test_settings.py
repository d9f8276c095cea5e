"""What the webhook takes from flags and environment."""

import pytest

from webhook.settings import WebhookSettings


def settings(*arguments: str) -> WebhookSettings:
    """Read *arguments* besides what must be given."""
    return WebhookSettings.from_arguments(
        ["--namespace", "gpu-system", *arguments], program="gpuslice-webhook"
    )


def test_a_certificate_is_for_the_service() -> None:
    """Both names by which a cluster reaches it are in it."""
    assert settings("--service-name", "gate").hosts == (
        "gate.gpu-system.svc",
        "gate.gpu-system.svc.cluster.local",
    )


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://gate.example.com", "gate.example.com"),
        ("https://gate.example.com:31998/hooks", "gate.example.com"),
        ("https://10.1.2.3:31998", "10.1.2.3"),
        ("https://[fd00::1]:443/", "fd00::1"),
    ],
)
def test_a_certificate_is_also_for_a_url(url: str, host: str) -> None:
    """The API server asks there, and the replicas each other by the name of the Service."""
    found = settings("--custom-url", url).hosts
    assert found[-1] == host
    assert found[:-1] == settings().hosts


@pytest.mark.parametrize(
    "url",
    [
        *("http://a.example.com", "gate.example.com", "https://", "https://a b", "https://a/?b"),
        *("https://u@a", "https://[fd00::1", "https://a:123456"),
    ],
)
def test_a_url_that_the_api_server_would_refuse_is_refused(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line says what it should be."""
    with pytest.raises(SystemExit):
        settings("--custom-url", url)
    assert "--custom-url" in capsys.readouterr().err


def test_sizes_are_numbers_of_mib() -> None:
    """They come with commas or one by one, and are sorted."""
    assert settings("--gpu-sizes-mib", "81559,24576", "--gpu-sizes-mib", "24576").sizes_mib == (
        24576,
        81559,
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--gpu-sizes-mib", "80Gi"], "`80Gi` is no number of MiB"),
        (["--time-budget-s", "0"], "--time-budget-s: 0: input should be greater than 0"),
        (["--mode", "both"], "--mode: both: input should be 'auto', 'dra' or 'hami'"),
        (["--exempt-namespaces", "a,gpu-system"], "cannot be exempt"),
    ],
)
def test_a_mistake_is_named_with_its_flag(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line on stderr says what is wrong."""
    with pytest.raises(SystemExit) as ended:
        settings(*arguments)
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


def test_the_namespace_must_be_given(capsys: pytest.CaptureFixture[str]) -> None:
    """A guess could exempt a namespace that is not ours."""
    with pytest.raises(SystemExit):
        WebhookSettings.from_arguments([], program="gpuslice-webhook")
    assert "--namespace: not given" in capsys.readouterr().err


def test_the_environment_counts_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable stands for a flag that is not there."""
    monkeypatch.setenv("GPUSLICE_DRAIN_S", "1.5")
    assert settings().drain_s == 1.5
    assert settings("--drain-s", "0").drain_s == 0
