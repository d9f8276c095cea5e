"""What an administrator can set, and that nothing beside it decides about places."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import dra
from cdi.hooks import HookMode
from dra import wiring
from dra.settings import AgentSettings
from gpu.xids import XidPolicy

SOURCES = Path(str(dra.__file__)).parent
PACKAGES = [SOURCES, *(SOURCES.parent / name for name in ("cdi", "gpu", "kube"))]
PLACES = ("/var/lib/kubelet", "/var/run/cdi", "/etc/cdi", "/proc/", "/sys/", "/run/nvidia")


def settings_of(*flags: str) -> AgentSettings:
    """Return the settings by *flags* beside the node's name."""
    return AgentSettings.from_arguments(["--node-name", "node-1", *flags], program="agent")


def mistake_in(capsys: pytest.CaptureFixture[str], *flags: str) -> str:
    """Return what is said about wrong *flags*."""
    with pytest.raises(SystemExit) as caught:
        AgentSettings.from_arguments(flags, program="agent")
    assert caught.value.code == 2
    return capsys.readouterr().err


def test_the_node_has_to_be_named(capsys: pytest.CaptureFixture[str]) -> None:
    """There is no guess that would be right in a pod."""
    assert mistake_in(capsys).startswith("agent: --node-name: not given")
    assert "--node-name" in mistake_in(capsys, "--node-name", "")


def test_the_defaults_suit_most_clusters() -> None:
    """Kubelet, the runtime and HAMi's habits are where they are by default."""
    settings = settings_of()
    assert settings.plugin_directory == Path("/var/lib/kubelet/plugins/gpuslice.io")
    assert settings.registry_directory == Path("/var/lib/kubelet/plugins_registry")
    assert settings.cdi_directory == Path("/var/run/cdi")
    assert settings.shares_per_gpu == 10
    assert settings.unlimited_namespaces == ()
    assert settings.priority_namespaces == ("*",)
    assert not settings.accept_placeholder_library


def test_flags_and_environment_say_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Flags win."""
    flags = settings_of("--shares-per-gpu", "4", "--hooks", "none", "--kubelet-root", "/k")
    monkeypatch.setenv("GPUSLICE_SHARES_PER_GPU", "4")
    monkeypatch.setenv("GPUSLICE_HOOKS", "none")
    monkeypatch.setenv("GPUSLICE_KUBELET_ROOT", "/k")
    assert settings_of() == flags
    assert (flags.shares_per_gpu, flags.hooks) == (4, HookMode.NONE)
    assert settings_of("--shares-per-gpu", "5").shares_per_gpu == 5


def test_a_moved_kubelet_moves_everything_below_it() -> None:
    """Sockets and state follow its root."""
    settings = settings_of("--kubelet-root", "/mnt/fast/kubelet")
    assert settings.plugin_directory == Path("/mnt/fast/kubelet/plugins/gpuslice.io")
    assert settings.registry_directory == Path("/mnt/fast/kubelet/plugins_registry")


def test_namespaces_are_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    """A flag given twice, a flag with commas, and a variable with commas."""
    expected = ("team-a", "team-b")
    flag = "--unlimited-namespaces"
    assert settings_of(flag, "team-a", flag, "team-b").unlimited_namespaces == expected
    assert settings_of(flag, "team-a,team-b").unlimited_namespaces == expected
    monkeypatch.setenv("GPUSLICE_UNLIMITED_NAMESPACES", "team-a, team-b")
    monkeypatch.setenv("GPUSLICE_PRIORITY_NAMESPACES", "")
    assert settings_of().unlimited_namespaces == expected
    assert settings_of().priority_namespaces == ()


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        ("--shares-per-gpu", "0"),
        ("--shares-per-gpu", "many"),
        ("--probe-port", "70000"),
        ("--scan-interval-s", "0"),
        ("--hooks", "all"),
        ("--log-level", "loud"),
        ("--minimum-share-mib", "0"),
        ("--ignored-xids", "13,all"),
        ("--ignored-xids", "any"),
        ("--critical-xids", "all"),
        ("--critical-xids", "0"),
        ("--xid-recovery-s", "-1"),
    ],
)
def test_wrong_values_are_named(capsys: pytest.CaptureFixture[str], flag: str, value: str) -> None:
    """Program, flag and value are in one line."""
    said = mistake_in(capsys, "--node-name", "node-1", flag, value)
    assert said.startswith(f"agent: {flag}: {value}: ")


def test_xids_are_numbers_or_all_of_them() -> None:
    """What counts as critical is told by number, so that nobody means all by mistake."""
    settings = settings_of("--ignored-xids", "79, 48", "--critical-xids", "13")
    policy = wiring.health_rules(settings).policy
    assert [policy.is_critical(xid) for xid in (13, 31, 48, 79, 95)] == [
        *(True, False, False, False, True)
    ]
    assert wiring.health_rules(settings_of("--ignored-xids", "all")).policy.is_off
    assert wiring.health_rules(settings_of()).policy == XidPolicy()
    assert wiring.health_rules(settings_of("--xid-recovery-s", "5")).recovery_s == 5


def texts(tree: ast.Module) -> Iterator[str]:
    """Yield the strings of a module that are no docstrings."""
    documentation = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and id(node) not in documentation:
            yield str(node.value)


def test_no_place_of_kubelet_is_fixed_in_the_code() -> None:
    """A path that is written down elsewhere would ignore its flag."""
    files = [path for package in PACKAGES for path in package.rglob("*.py")]
    assert len(files) > 60
    found = {
        str(path.relative_to(SOURCES.parent))
        for path in files
        if any("/var/lib/kubelet" in text for text in texts(ast.parse(path.read_text())))
    }
    assert found == {"dra/settings.py"}


def test_the_plugin_fixes_no_place_of_the_host() -> None:
    """Only the settings know where the runtime, the kernel and the driver are by default."""
    found = {
        path.name
        for path in SOURCES.rglob("*.py")
        if any(place in text for place in PLACES for text in texts(ast.parse(path.read_text())))
    }
    assert found <= {"settings.py"}
