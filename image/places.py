"""Where the image and what it is built with lie.

Everything that a build leaves is in one folder of the user's cache, which may be deleted at any
time, but for the archive, which lies in the checkout.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from image.sources import ROOT

ARCHIVE: Final = ROOT / "build" / "gpuslice-image.tar"
"""The image in the form of `docker save`, which containerd imports."""
SBOM: Final = ROOT / "build" / "gpuslice-sbom.cdx.json"
"""What is in it: a copy of the file that it carries."""


def cache_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of what builds leave, after the XDG base directory rules."""
    home = environment.get("XDG_CACHE_HOME") or Path(environment.get("HOME", "/")) / ".cache"
    return Path(home) / "gpuslice" / "image"


def key_of(archive: Path) -> Path:
    """Return the file that says of what *archive* was made."""
    return archive.with_suffix(".key")
