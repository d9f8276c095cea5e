"""Releases as servers, kubelets and runtimes write them, with whatever vendors add."""

import re
from typing import Final, NamedTuple

_RELEASE: Final = re.compile(r"v?(\d+)\.(\d+)(?:\.(\d+))?", re.ASCII)

_CRIO_MENDED: Final = {31: 11, 32: 7, 33: 3}
"""By minor the first patch in which a pod's variables do not replace those of its devices."""
_CRIO_MENDED_MINOR: Final = 34
_CONTAINERD_CDI: Final = (1, 7)


class Release(NamedTuple):
    """Such as 1.36.2."""

    major: int
    minor: int
    patch: int = 0

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"


def release_of(text: str) -> Release | None:
    """Return the release at the beginning of *text*, such as `v1.31.2+k3s1`."""
    match = _RELEASE.match(text.strip())
    return Release(*(int(part or 0) for part in match.groups())) if match else None


def lets_pods_override(name: str, release: Release) -> bool:
    """Tell whether with this runtime a pod's own variables win over its limits (CRI-O PR 9292)."""
    if name != "cri-o" or release.minor >= _CRIO_MENDED_MINOR:
        return False
    return release.patch < _CRIO_MENDED.get(release.minor, release.patch + 1)


def lacks_cdi(name: str, release: Release) -> bool:
    """Tell whether the runtime does not know CDI devices at all."""
    return name == "containerd" and release[:2] < _CONTAINERD_CDI
