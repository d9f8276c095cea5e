"""How each builder is told to build the Dockerfile, and to write an archive that containerd takes.

buildah needs no service and no namespace of its own (`--isolation chroot`), so it works in a
container and on CI; its store is in the cache folder, not the system's. What it mounts goes with
its process, also where that is killed. podman and docker use the store that they have.
"""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from image.errors import BuildError, MissingError

KNOWN: Final = ("buildah", "podman", "docker")


# A build of a changed project leaves some 100 MiB, one on other packages 600.
_STORE_MIB: Final = 4096

# All files have one time, whichever commit they are of: a layer that has not changed is the same
# layer in the next image, and is not fetched again. It is the first that a ZIP file can tell.
TIME_S: Final = 315532800


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One image to be built."""

    context: Path
    tag: str
    dockerfile: Path
    arguments: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, Path] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Builder:
    """A builder that was found."""

    name: str
    program: Sequence[str]
    options: Sequence[str] = ()
    """Those before each of its commands."""
    cache: Path | None = None
    """Where its store is, and what it needs for a moment; `None` where it has places of its own."""

    def build(self, order: Order) -> None:
        """Build; BuildError when that fails."""
        self._run(*self.build_command(order))

    def save(self, tag: str, path: Path) -> None:
        """Write the image *tag* to *path*."""
        path.unlink(missing_ok=True)
        self._run(*self.save_command(tag, path))

    def tidy(self, limit_mib: int = _STORE_MIB) -> None:
        """Forget what earlier builds may be continued from, once that is more than *limit_mib*."""
        if self.cache is None:
            return
        files = (path.lstat() for path in (self.cache / "store").rglob("*"))
        if sum(each.st_blocks for each in files) > limit_mib * 2048:
            self._run("rmi", "--prune")

    def build_command(self, order: Order) -> list[str]:
        """Return the arguments that build."""
        command = ["build", "--file", str(order.dockerfile), "--tag", order.tag]
        arguments = dict(order.arguments)
        if self.name == "docker":
            arguments["SOURCE_DATE_EPOCH"] = str(TIME_S)
        else:
            command += ["--timestamp", str(TIME_S), "--layers"]
        if self.name == "buildah":
            command += ["--isolation", "chroot"]
        for name, value in arguments.items():
            command += ["--build-arg", f"{name}={value}"]
        for name, path in order.secrets.items():
            command += ["--secret", f"id={name},src={path}"]
        return [*command, str(order.context)]

    def save_command(self, tag: str, path: Path) -> list[str]:
        """Return the arguments that write an archive."""
        if self.name == "buildah":
            # By its number: else the name that it has in the store is in the archive too.
            return ["push", "--quiet", self._number(tag), f"docker-archive:{path}:{tag}"]
        form = ["--format", "docker-archive"] if self.name == "podman" else []
        return ["save", *form, "--output", str(path), tag]

    def _number(self, tag: str) -> str:
        form = ("inspect", "--type", "image", "--format", "{{.FromImageID}}", tag)
        told = subprocess.run(  # noqa: S603 - the builder that was found
            [*self.program, *self.options, *form], check=True, capture_output=True, text=True
        )
        return told.stdout.strip()

    def _run(self, *arguments: str) -> None:
        environment = {**os.environ, "DOCKER_BUILDKIT": "1"}
        if self.cache is not None:
            environment["TMPDIR"] = str(self.cache / "tmp")
        done = subprocess.run(  # noqa: S603 - the builder that was found
            [*self.program, *self.options, *arguments], check=False, env=environment
        )
        if done.returncode != 0:
            message = f"{self.name} {arguments[0]} ended with {done.returncode}"
            raise BuildError(message)


def find(name: str, cache: Path) -> Builder:
    """Return the builder *name*, or the first that is here when that is empty."""
    for each in (name,) if name else KNOWN:
        program = shutil.which(each)
        if program is not None and each in KNOWN:
            return _prepared(program, cache) if each == "buildah" else Builder(each, [program])
    message = (
        f"no {name or 'builder of images'}: "
        "`apt-get install -y --no-install-recommends buildah` brings one"
    )
    raise MissingError(message)


def _prepared(buildah: str, cache: Path) -> Builder:
    """Return buildah with a store in *cache*, of which nobody else is making use."""
    unshare = shutil.which("unshare") if os.geteuid() == 0 else None
    program = [unshare, "--mount", buildah] if unshare else [buildah]
    (cache / "tmp").mkdir(parents=True, exist_ok=True)
    # What a killed build has said of mounts, which are gone.
    shutil.rmtree(cache / "run", ignore_errors=True)
    places = ("--root", str(cache / "store"), "--runroot", str(cache / "run"))
    said = ""
    # Files that are copied whole take far longer, but work where no file system can be laid over.
    for driver in ("overlay", "vfs"):
        options = (*places, "--storage-driver", driver)
        tried = subprocess.run(  # noqa: S603 - the builder that was found
            [*program, *options, "rm", "--all"], check=False, capture_output=True, text=True
        )
        if tried.returncode == 0:
            return Builder("buildah", program, options, cache)
        said = tried.stderr.strip()
    message = f"buildah does not work here: {said}"
    raise MissingError(message)
