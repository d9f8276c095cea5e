"""The image that `make image` has built, for tests marked `image`; without it they are left out.

With --require-image a missing image is an error rather than a line. It is unpacked once for each
session; what is run in it has its user, its environment and a file system that nobody can write to.
"""

import json
import os
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from image.errors import MissingError
from image.making import made

_LEFT_OUT: Final = pytest.StashKey[str]()
# A read-only view of the tree $0, in a namespace of mounts that ends with the program.
_RUN: Final = (
    'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && program="$(command -v chroot)" && '
    'PATH="$IMAGE_PATH" exec "$program" --userspec="$IMAGE_USER" "$0" "$@"'
)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave marked tests out where there is no image of these sources."""
    ours = [item for item in items if item.get_closest_marker("image")]
    if not ours:
        return
    try:
        _check()
    except MissingError as error:
        if config.getoption("--require-image"):
            raise pytest.UsageError(str(error)) from error
        config.stash[_LEFT_OUT] = f"{len(ours)} tests of the image were left out: {error}"
        config.hook.pytest_deselected(items=ours)
        items[:] = [item for item in items if item not in ours]


def _check() -> None:
    if os.geteuid() != 0:
        raise MissingError("programs are run in it by chroot, which needs root")
    made()


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Say what was left out."""
    if line := config.stash.get(_LEFT_OUT, ""):
        terminalreporter.write_line(line, yellow=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unpacked:
    """The image, its layers laid over one another."""

    root: Path
    config: Mapping[str, Any]
    tags: Sequence[str]
    members: Mapping[str, tarfile.TarInfo]
    """What the last layer that has it says of each file."""

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a program in the image as its user."""
        environment = dict(each.split("=", 1) for each in self.config["config"]["Env"])
        environment |= {
            "IMAGE_PATH": environment["PATH"],
            "IMAGE_USER": self.config["config"]["User"],
            "PATH": os.environ["PATH"],
        }
        return subprocess.run(  # noqa: S603 - programs of an image that we have built
            ["unshare", "--mount", "sh", "-c", _RUN, str(self.root), *command],  # noqa: S607 - the system's own
            check=False,
            capture_output=True,
            text=True,
            env=environment,
        )

    def python(self, program: str) -> str:
        """Return what a program in Python prints in the image."""
        done = self.run("python", "-c", program)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture(scope="session")
def image(tmp_path_factory: pytest.TempPathFactory) -> Unpacked:
    """Return the image."""
    root = tmp_path_factory.mktemp("image")
    root.chmod(0o755)
    for above in root.parents[:2]:
        # pytest keeps its folders to itself, and the image's user has to come through.
        above.chmod(0o711)
    members: dict[str, tarfile.TarInfo] = {}
    with tarfile.open(made()) as archive:
        described = json.loads(_content(archive, "manifest.json"))[0]
        for name in described["Layers"]:
            with tarfile.open(fileobj=archive.extractfile(name)) as layer:
                layer.extractall(root, numeric_owner=True, filter="tar")
                members |= {each.name.strip("/"): each for each in layer.getmembers()}
        config = json.loads(_content(archive, described["Config"]))
    return Unpacked(root=root, config=config, tags=described["RepoTags"], members=members)


def _content(archive: tarfile.TarFile, name: str) -> bytes:
    file = archive.extractfile(name)
    assert file is not None
    return file.read()
