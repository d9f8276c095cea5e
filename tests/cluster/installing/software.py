"""The images that an installation needs, loaded into containerd: none is ever fetched.

Our own is what `make image` has built. That of kube-scheduler holds the program that was built for
the cluster, and that of HAMi-core a library which loads and does nothing.
"""

from pathlib import Path
from typing import Any, Final

from tests.cdi.elves import shared_object
from tests.cluster.cluster import REPOSITORY, RealCluster
from tests.cluster.components import CONTAINERD_SOCKET
from tests.cluster.errors import MissingError
from tests.cluster.images import write_files_archive

ARCHIVE: Final = REPOSITORY / "build" / "gpuslice-image.tar"
REGISTRY: Final = "gpuslice.test"
_LIBRARY: Final = "library"
_SCHEDULER: Final = "kube-scheduler"
_TAG: Final = "1"
_LIBRARY_PATH: Final = "/k8s-vgpu/lib/nvidia"
_LOAD_S: Final = 300.0


def check() -> None:
    """Raise MissingError unless our image is built."""
    if not ARCHIVE.is_file():
        message = f"{ARCHIVE.name} is not built: `make image` builds it"
        raise MissingError(message)


def load(cluster: RealCluster) -> dict[str, Any]:
    """Load all images; return the chart's values that name them, ours by the chart's own name."""
    folder = cluster.state_dir
    library = folder / "library.tar"
    write_files_archive(
        library,
        f"{REGISTRY}/{_LIBRARY}:{_TAG}",
        {f"{_LIBRARY_PATH}/libvgpu.so.v2.8.2": shared_object(["GLIBC_2.17"])},
        busybox=True,
    )
    scheduler = folder / "scheduler.tar"
    program = Path(cluster.assets.path(_SCHEDULER))
    write_files_archive(
        scheduler,
        f"{REGISTRY}/{_SCHEDULER}:{_TAG}",
        {f"/usr/local/bin/{_SCHEDULER}": program.read_bytes()},
    )
    _import(cluster, ARCHIVE)
    for archive in (library, scheduler):
        _import(cluster, archive)
        archive.unlink()
    never = {"pullPolicy": "Never"}
    return {
        "image": never,
        "library": {
            "image": {"registry": REGISTRY, "repository": _LIBRARY, "tag": _TAG} | never,
            "path": _LIBRARY_PATH,
        },
        "scheduler": {
            "kubeScheduler": {
                "image": {"registry": REGISTRY, "repository": _SCHEDULER, "tag": _TAG} | never
            }
        },
    }


def _import(cluster: RealCluster, archive: Path) -> None:
    ctr = (cluster.assets.path("ctr"), "--address", CONTAINERD_SOCKET, "--namespace", "k8s.io")
    cluster.run_in(*ctr, "images", "import", str(archive), timeout_s=_LOAD_S)
