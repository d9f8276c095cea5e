"""Tests of choosing hooks."""

from pathlib import Path

import pytest

from cdi.hooks import COMPAT, NO_HOOKS, HookMode, HookStrategy, choose
from gpu.refusal import RefusedError
from tests.cdi.trees import write


def program(root: Path, inner: str, mode: int = 0o755) -> None:
    """Put a program of *mode* at *inner* below *root*."""
    write(root, inner).chmod(mode)


def test_no_hooks_by_default(tmp_path: Path) -> None:
    """Without a configured binary there are no hooks, even where the host has some."""
    program(tmp_path, "usr/bin/nvidia-cdi-hook")
    chosen = choose(HookMode.AUTO, roots=[(tmp_path, "/")])
    assert chosen == NO_HOOKS
    assert chosen.degraded
    assert choose(HookMode.NONE, binary="/opt/hook") == NO_HOOKS


def test_configured_binary_is_used() -> None:
    """A configured binary is taken as the host knows it, with the extra hooks asked for."""
    chosen = choose(HookMode.AUTO, binary="/opt/nvidia-cdi-hook", extra=[COMPAT])
    assert chosen == HookStrategy(binary="/opt/nvidia-cdi-hook", extra=(COMPAT,))
    assert not chosen.degraded


def test_host_binary_is_searched(tmp_path: Path) -> None:
    """The host's hook is preferred over its nvidia-ctk, and roots are tried in order."""
    first, second = tmp_path / "first", tmp_path / "second"
    program(second, "usr/local/nvidia/toolkit/nvidia-ctk")
    roots = [(first, "/first"), (second, "/")]
    chosen = choose(HookMode.HOST, roots=roots)
    assert chosen.binary == "/usr/local/nvidia/toolkit/nvidia-ctk"
    program(second, "usr/local/bin/nvidia-cdi-hook")
    assert choose(HookMode.HOST, roots=roots).binary == "/usr/local/bin/nvidia-cdi-hook"
    program(first, "usr/bin/nvidia-ctk")
    assert choose(HookMode.HOST, roots=roots).binary == "/first/usr/bin/nvidia-ctk"


def test_missing_host_binary_is_refused(tmp_path: Path) -> None:
    """Hooks that are asked for and not there, or not runnable, are refused."""
    program(tmp_path, "usr/bin/nvidia-cdi-hook", 0o644)
    with pytest.raises(RefusedError, match="HookBinaryMissing"):
        choose(HookMode.HOST, roots=[(tmp_path, "/")])
