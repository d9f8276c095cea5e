"""The Go modules that the cluster is built from; their go.mod files say which releases.

Each Kubernetes release has a module of its own, and so has each of the other parts, for their
requirements differ. The go.mod of k8s.io/kubernetes asks for its staging modules at v0.0.0 with
local replacements, which count in the main module alone; requiring each at the matching v0.x.y
takes their place.
"""

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.cluster.errors import MissingError

FOLDER: Final = Path(__file__).parent / "modules"
_PREFIX: Final = "k8s-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """A folder with a go.mod and the programs that come of it."""

    name: str
    programs: tuple[str, ...]
    package: str = "tool"
    renamed: tuple[str, str] | None = None

    @property
    def folder(self) -> Path:
        """Return where its go.mod lies."""
        return FOLDER / self.name

    def content_hash(self) -> str:
        """Return 12 hexadecimal digits that change with any of its files and with its flags."""
        digest = hashlib.sha256(" ".join(self.linker_flags()).encode())
        for path in sorted(each for each in self.folder.iterdir() if each.is_file()):
            digest.update(f"\0{path.name}\0".encode() + path.read_bytes())
        return digest.hexdigest()[:12]

    def linker_flags(self) -> tuple[str, ...]:
        """Return the linker's flags: without the version a server calls itself v0.0.0."""
        if not self.name.startswith(_PREFIX):
            return ("-s", "-w")
        release = kubernetes_release(self.name.removeprefix(_PREFIX))
        major, minor, _ = release.removeprefix("v").split(".")
        values = {"gitVersion": release, "gitMajor": major, "gitMinor": minor}
        return (
            "-s",
            "-w",
            *(
                f"-X {package}.{key}={value}"
                for package in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
                for key, value in values.items()
            ),
        )


ETCD: Final = Module(name="etcd", programs=("etcd",), renamed=("server", "etcd"))
CONTAINERD: Final = Module(
    name="containerd", programs=("containerd", "containerd-shim-runc-v2", "ctr")
)
CNI: Final = Module(name="cni", programs=("bridge", "host-local", "loopback"))
CDI_CHECK: Final = Module(name="cdicheck", programs=("cdicheck",), package=".")


def kubernetes(minor: str) -> Module:
    """Return the module of a *minor* such as 1.37; MissingError where there is none."""
    if minor not in minors():
        message = f"Kubernetes {minor} is not among {', '.join(minors())}"
        raise MissingError(message)
    return Module(
        name=_PREFIX + minor,
        programs=(
            "kube-apiserver",
            "kube-controller-manager",
            "kube-scheduler",
            "kubectl",
            "kubelet",
        ),
    )


def minors() -> tuple[str, ...]:
    """Return the Kubernetes minors that can be built, oldest first."""
    return tuple(sorted(path.name.removeprefix(_PREFIX) for path in FOLDER.glob(f"{_PREFIX}*")))


def kubernetes_release(minor: str) -> str:
    """Return the release of a *minor*, such as v1.37.2, that its go.mod names."""
    text = (FOLDER / f"{_PREFIX}{minor}" / "go.mod").read_text()
    found = re.search(r"^\s+k8s\.io/kubernetes (v\S+)", text, re.MULTILINE)
    if found is None:
        message = f"the go.mod of Kubernetes {minor} names no release"
        raise MissingError(message)
    return found.group(1)


def modules_of(minor: str) -> tuple[Module, ...]:
    """Return all that a cluster of this *minor* is made of, small ones first."""
    return (CDI_CHECK, CNI, CONTAINERD, ETCD, kubernetes(minor))
