"""Where the cluster's programs are: ready-made ones, or those built into the cache.

The cache lies outside the tree, one folder for each module and state of its files, so that a
checkout of another commit finds its own programs and a changed go.mod asks for a build.
"""

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.cluster.errors import MissingError
from tests.cluster.go_modules import Module, modules_of

READY_MADE: Final = "GPUSLICE_CLUSTER_ASSETS"
_DEBIAN: Final = {"busybox": "busybox-static", "ip": "iproute2", "runc": "runc"}
_SYSTEM: Final = ("nsenter", "mount")


@dataclass(frozen=True, slots=True, kw_only=True)
class Assets:
    """Every program of a cluster by its name."""

    minor: str
    programs: Mapping[str, Path]

    def path(self, program: str) -> str:
        """Return where *program* lies."""
        return str(self.programs[program])

    @property
    def cni_folder(self) -> str:
        """Return the folder of the network plugins, which containerd wants together."""
        return str(self.programs["bridge"].parent)


def cache_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of built programs, after the XDG base directory rules."""
    home = environment.get("XDG_CACHE_HOME") or Path(environment.get("HOME", "/")) / ".cache"
    return Path(home) / "gpuslice" / "cluster"


def built_folder(module: Module, cache: Path) -> Path | None:
    """Return the newest folder that holds this state of *module*, by whichever Go."""
    found = sorted(
        cache.glob(f"{module.name}-{module.content_hash()}-*"),
        key=lambda path: path.stat().st_mtime,
    )
    return found[-1] if found else None


def find(minor: str, environment: Mapping[str, str] = os.environ) -> Assets:
    """Return the programs for a *minor*; MissingError says in one line how to get them."""
    ready_made = environment.get(READY_MADE)
    if ready_made:
        return _ready_made(minor, Path(ready_made))
    programs: dict[str, Path] = {}
    cache = cache_folder(environment)
    for module in modules_of(minor):
        folder = built_folder(module, cache)
        if folder is None:
            raise MissingError(how_to_get(minor))
        programs.update({name: folder / name for name in module.programs})
    return Assets(minor=minor, programs=programs)


def how_to_get(minor: str) -> str:
    """Return the line that tells a person how to come by the programs."""
    command = f"`make cluster K8S={minor}` builds it"
    if shutil.which("go") is None:
        command += " once Go 1.26 or newer is installed"
    return f"Kubernetes {minor} is not built: {command}, or {READY_MADE} names ready programs"


def _ready_made(minor: str, folder: Path) -> Assets:
    programs: dict[str, Path] = {}
    for module in modules_of(minor):
        for name in module.programs:
            places = (folder / module.name / name, folder / name)
            found = next((place for place in places if os.access(place, os.X_OK)), None)
            if found is None:
                message = f"{READY_MADE} has no {module.name}/{name} and no {name}"
                raise MissingError(message)
            programs[name] = found
    return Assets(minor=minor, programs=programs)


def check_system(which: Mapping[str, str | None] | None = None) -> None:
    """Check that this user may, and that the distribution's programs are there."""
    if which is None:
        which = {name: shutil.which(name) for name in (*_DEBIAN, *_SYSTEM)}
        if os.geteuid() != 0:
            raise MissingError("a real cluster needs root: it makes namespaces and mounts")
    packages = sorted(package for name, package in _DEBIAN.items() if not which.get(name))
    if packages:
        message = (
            f"missing programs: apt-get install -y --no-install-recommends {' '.join(packages)}"
        )
        raise MissingError(message)
    absent = [name for name in _SYSTEM if not which.get(name)]
    if absent:
        message = f"missing programs of util-linux: {', '.join(absent)}"
        raise MissingError(message)
