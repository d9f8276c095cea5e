"""Makes a base image for those who have none at hand: a Debian with Python, from its packages.

`mmdebstrap` fetches them with this machine's apt, the archive's signatures are checked, and all
files get one time, so two runs on the same packages make the same base. It stays until it is asked
for again, which is how updates of the distribution get into an image.
"""

import hashlib
import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

from image.builders import TIME_S
from image.errors import BuildError, MissingError

SUITE: Final = "bookworm"
# What wheels may take for granted (PEP 600) and Debian's smallest system lacks: libstdc++6.
_PACKAGES: Final = ("ca-certificates", "libstdc++6", "python3-venv")
_DOCKERFILE: Final = "FROM scratch\nADD base.tar /\n"


def context(cache: Path, suite: str = SUITE, *, anew: bool = False) -> Path:
    """Return a folder that builds the base image; its packages are fetched if there is none yet."""
    folder = cache / f"base-{suite}"
    archive = folder / "base.tar"
    if archive.exists() and not anew:
        return folder
    program = shutil.which("mmdebstrap")
    if program is None:
        message = (
            "no base image: `apt-get install -y --no-install-recommends mmdebstrap` lets one be "
            "made, or BASE names one that has Python 3.11 or newer"
        )
        raise MissingError(message)
    folder.mkdir(parents=True, exist_ok=True)
    partial = folder / ".base.tar"
    command = [
        program, "--quiet", "--variant=essential", f"--include={','.join(_PACKAGES)}",
        "--format=tar", suite, str(partial),
    ]  # fmt: skip
    environment = {**os.environ, "TMPDIR": str(folder), "SOURCE_DATE_EPOCH": str(TIME_S)}
    done = subprocess.run(command, check=False, env=environment)  # noqa: S603 - what was found
    if done.returncode != 0:
        partial.unlink(missing_ok=True)
        message = f"mmdebstrap ended with {done.returncode}"
        raise BuildError(message)
    (folder / "Dockerfile").write_text(_DOCKERFILE, encoding="utf-8")
    partial.rename(archive)
    return folder


def digest(folder: Path) -> str:
    """Return the hexadecimal digest of the base that *folder* builds."""
    with (folder / "base.tar").open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
