"""What the image is made of, and by which commit: decides whether it has to be built again.

`.dockerignore` names what a build may see, so it is also the list of what can change an image. The
last commit that touched any of that is what the labels tell; a commit that only touched a test
leaves the image as it is, bit for bit.
"""

import hashlib
import subprocess
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from image.errors import MissingError

ROOT: Final = Path(__file__).resolve().parent.parent
_UNKNOWN: Final = "unknown"


@dataclass(frozen=True, slots=True)
class Sources:
    """The state of what the image in the checkout *root* is made of."""

    root: Path
    version: str
    revision: str
    """A commit, with `-dirty` at its end where files differ from it."""
    time: str
    """When that commit was made (RFC 3339)."""
    digest: str
    """Hexadecimal digits that change with any of the files."""

    @property
    def identity(self) -> str:
        """Return what tells one image from another, wherever the checkout is."""
        return f"{self.version} {self.revision} {self.digest}"


def read(root: Path = ROOT) -> Sources:
    """Read the state of a checkout."""
    names = visible(root)
    digest = hashlib.sha256()
    for path in _files(root, names):
        content = (root / path).read_bytes()
        digest.update(f"\0{path}\0{len(content)}\0".encode() + content)
    commit, _, time = _git(root, "log", "-1", "--format=%H %cI", "--", *names).partition(" ")
    changed = _git(root, "status", "--porcelain", "--", *names)
    return Sources(
        root=root,
        version=version(root),
        revision=f"{commit or _UNKNOWN}{'-dirty' if changed else ''}",
        time=time,
        digest=digest.hexdigest(),
    )


def version(root: Path = ROOT) -> str:
    """Return the project's version."""
    with (root / "pyproject.toml").open("rb") as file:
        return str(tomllib.load(file)["project"]["version"])


def visible(root: Path) -> list[str]:
    """Return the names at the top of *root* that a build may see."""
    lines = (root / ".dockerignore").read_text(encoding="utf-8").splitlines()
    return [line.removeprefix("!") for line in lines if line.startswith("!")]


def _files(root: Path, names: Sequence[str]) -> list[str]:
    options = ("-z", "--cached", "--others", "--exclude-standard")
    listed = _git(root, "ls-files", *options, "--", *names).split("\0")
    return sorted({path for path in listed if path and (root / path).is_file()})


def _git(root: Path, *arguments: str) -> str:
    told = subprocess.run(  # noqa: S603 - git with arguments of ours
        ["git", *arguments],  # noqa: S607 - the one on the path
        cwd=root,
        check=False,
        capture_output=True,
        text=True,
    )
    if told.returncode != 0:
        message = f"the image is built from a git checkout: {told.stderr.strip()}"
        raise MissingError(message)
    return told.stdout.strip("\n")
