"""Build the cluster's programs from their published Go modules, once.

A module is built into a folder beside its final place and renamed when whole, so that a build
that was cut short is never used; a lock lets a second build wait for the first.
"""

import fcntl
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.cluster.assets import built_folder, cache_folder, find
from tests.cluster.errors import BuildError, MissingError
from tests.cluster.go_modules import Module, modules_of

_PROGRESS_EVERY_S: Final = 15.0


def build(minor: str, cache: Path | None = None) -> None:
    """Build what a cluster of this *minor* lacks; nothing when all is there."""
    try:
        find(minor)
    except MissingError:
        cache = cache or cache_folder()
        for module in modules_of(minor):
            build_module(module, cache)
        find(minor)


def build_module(module: Module, cache: Path) -> Path:
    """Return the folder with the programs of *module*, built first when it is not there."""
    cache.mkdir(parents=True, exist_ok=True)
    with _locked(cache / f".{module.name}.lock"):
        ready = built_folder(module, cache)
        if ready is not None:
            return ready
        go = shutil.which("go")
        if go is None:
            message = f"no Go here to build {module.name}; install Go 1.26 or newer"
            raise MissingError(message)
        return _build(module, cache, go)


def command_of(module: Module, go: str, output: Path) -> list[str]:
    """Return the command that builds the programs of *module* into *output*."""
    return [
        go,
        "build",
        "-v",
        "-trimpath",
        "-buildvcs=false",
        "-mod=readonly",
        f"-ldflags={' '.join(module.linker_flags())}",
        "-o",
        f"{output}/",
        module.package,
    ]


def _build(module: Module, cache: Path, go: str) -> Path:
    environment = {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"}
    version = subprocess.run(  # noqa: S603 - the Go tool that was found
        [go, "env", "GOVERSION"],
        cwd=module.folder,
        check=True,
        capture_output=True,
        text=True,
        env=environment,
    ).stdout.strip()
    target = cache / f"{module.name}-{module.content_hash()}-{version}"
    partial = cache / f".{module.name}.partial"
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    _run(module, command_of(module, go, partial), environment)
    if module.renamed is not None:
        (partial / module.renamed[0]).rename(partial / module.renamed[1])
    missing = [name for name in module.programs if not (partial / name).is_file()]
    if missing:
        message = f"{module.name} built without {', '.join(missing)}"
        raise BuildError(message)
    partial.rename(target)
    return target


def _run(module: Module, command: list[str], environment: dict[str, str]) -> None:
    """Run the build and say how many packages are done; the last lines when it fails."""
    started_s = told_s = time.monotonic()
    _say(f"{module.name}: building {', '.join(module.programs)}")
    lines: list[str] = []
    with subprocess.Popen(  # noqa: S603 - the Go tool that was found
        command,
        cwd=module.folder,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stderr is not None
        for line in child.stderr:
            lines.append(line)
            if time.monotonic() - told_s >= _PROGRESS_EVERY_S:
                told_s = time.monotonic()
                _say(f"{module.name}: {len(lines)} packages, {told_s - started_s:.0f} s")
    if child.returncode != 0:
        message = f"{module.name} does not build:\n{''.join(lines[-20:])}"
        raise BuildError(message)
    _say(f"{module.name}: built in {time.monotonic() - started_s:.0f} s")


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
