"""How a container's loader comes to find the driver's libraries.

NVIDIA's toolkit leaves that to hooks, programs that the runtime runs on the new root file system.
A hook binary older than the spec ends with exit 3 and the container does not start, so by default
we write none (`auto` and no binary configured): each library is also mounted under the names that
programs load it by. That is *degraded*: the image has to look for libraries where the host keeps
them, and CUDA forward compatibility is not set up.

Of the hooks only `create-symlinks` and `update-ldcache` are written, which every release knows;
later ones have to be asked for.
"""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from cdi.edits import Hook
from cdi.rooted import below, local, resolve_inside
from gpu.refusal import Refusal, RefusedError

_CDI_HOOK: Final = "nvidia-cdi-hook"
_CTK: Final = "nvidia-ctk"
_SEARCHED: Final = tuple(
    f"{directory}/{name}"
    for name in (_CDI_HOOK, _CTK)
    for directory in ("/usr/bin", "/usr/local/bin", "/usr/local/nvidia/toolkit")
)
COMPAT: Final = "enable-cuda-compat"
NO_NODE_CHANGES: Final = "disable-device-node-modification"


class HookMode(StrEnum):
    """Whose hooks a spec names."""

    AUTO = "auto"
    """The configured binary's where there is one, else none."""
    NONE = "none"
    HOST = "host"
    """Those of the toolkit that is installed on the host."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HookStrategy:
    """What was decided; without a *binary* (a path of the host's) there are no hooks."""

    binary: str | None
    extra: tuple[str, ...] = ()
    """Later hooks to write too: `COMPAT`, `NO_NODE_CHANGES`."""

    @property
    def degraded(self) -> bool:
        """Tell whether containers depend on the library path of their image."""
        return self.binary is None


NO_HOOKS: Final = HookStrategy(binary=None)


def choose(
    mode: HookMode,
    *,
    binary: str | None = None,
    roots: Iterable[tuple[Path, str]] = (),
    extra: Sequence[str] = (),
) -> HookStrategy:
    """Decide by *mode*; *roots* are file systems of the host, each as we and the host see it."""
    match mode:
        case HookMode.NONE:
            return NO_HOOKS
        case HookMode.AUTO if binary is None:
            return NO_HOOKS
        case HookMode.AUTO:
            return HookStrategy(binary=binary, extra=tuple(extra))
        case HookMode.HOST:
            return HookStrategy(binary=_find(roots), extra=tuple(extra))


def _find(roots: Iterable[tuple[Path, str]]) -> str:
    for local_root, host_root in roots:
        for path in _SEARCHED:
            found = resolve_inside(local_root, path)
            if found is not None and os.access(local(local_root, found), os.X_OK):
                return below(host_root, path)
    raise RefusedError(
        Refusal(
            code="HookBinaryMissing",
            field="hooks",
            value=HookMode.HOST,
            limit=f"none of {', '.join(_SEARCHED)} is there",
            remedy="install the NVIDIA container toolkit, or choose no hooks",
        )
    )


def _hook(binary: str, *args: str) -> Hook:
    name = binary.rpartition("/")[2]
    called = (_CTK, "hook") if name == _CTK else (_CDI_HOOK,)
    return Hook(
        hook_name="createContainer",
        path=binary,
        args=(*called, *args),
        env=("NVIDIA_CTK_DEBUG=false",),
    )


def hooks_for(
    strategy: HookStrategy,
    *,
    links: Iterable[tuple[str, str]],
    folders: Iterable[str],
    driver_version: str,
) -> tuple[Hook, ...]:
    """Return the hooks in the order of the toolkit; *links* are pairs of target and link path."""
    if strategy.binary is None:
        return ()
    pairs = [f"{target}::{link}" for target, link in sorted(set(links), key=lambda pair: pair[1])]
    made = []
    if pairs:
        flags = (text for pair in pairs for text in ("--link", pair))
        made.append(_hook(strategy.binary, "create-symlinks", *flags))
    if COMPAT in strategy.extra:
        made.append(_hook(strategy.binary, COMPAT, f"--host-driver-version={driver_version}"))
    dirs = (text for folder in sorted(set(folders)) for text in ("--folder", folder))
    made.append(_hook(strategy.binary, "update-ldcache", *dirs))
    if NO_NODE_CHANGES in strategy.extra:
        made.append(_hook(strategy.binary, NO_NODE_CHANGES))
    return tuple(made)
