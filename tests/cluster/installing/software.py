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
from tests.cluster.go_modules import kubernetes_release
from tests.cluster.images import write_files_archive

ARCHIVE: Final = REPOSITORY / "build" / "gpuslice-image.tar"
REGISTRY: Final = "registry.example.com"
"""That of the README's command, from which nothing can be fetched."""
_OWN: Final = "gpuslice:0.1.0"
_LIBRARY: Final = "hami-core:2.8.2"
_SCHEDULER: Final = "kube-scheduler"
_LIBRARY_FILE: Final = "/k8s-vgpu/lib/nvidia/libvgpu.so.v2.8.2"
_LOAD_S: Final = 300.0


def check() -> None:
    """Raise MissingError unless our image is built."""
    if not ARCHIVE.is_file():
        message = f"{ARCHIVE.name} is not built: `make image` builds it"
        raise MissingError(message)


def load(cluster: RealCluster) -> dict[str, Any]:
    """Load all images; return the chart's values that the README's command does not have."""
    version = kubernetes_release(cluster.options.minor)
    program = Path(cluster.assets.path(_SCHEDULER))
    archive = cluster.state_dir / "image.tar"
    for name, files in (
        (_LIBRARY, {_LIBRARY_FILE: shared_object(["GLIBC_2.17"])}),
        (f"{_SCHEDULER}:{version}", {f"/usr/local/bin/{_SCHEDULER}": program.read_bytes()}),
    ):
        write_files_archive(archive, f"{REGISTRY}/{name}", files, busybox=name == _LIBRARY)
        _ctr(cluster, "import", str(archive))
    archive.unlink()
    _ctr(cluster, "import", str(ARCHIVE))
    # containerd puts a registry before a name that has none.
    (own,) = {
        each for each in _ctr(cluster, "list", "--quiet").split() if each.endswith(f"/{_OWN}")
    }
    _ctr(cluster, "tag", own, f"{REGISTRY}/{_OWN}")
    image = {"registry": REGISTRY, "repository": _SCHEDULER}
    return {"scheduler": {"kubeScheduler": {"image": image}}}


def _ctr(cluster: RealCluster, *words: str) -> str:
    ctr = (cluster.assets.path("ctr"), "--address", CONTAINERD_SOCKET, "--namespace", "k8s.io")
    return cluster.run_in(*ctr, "images", *words, timeout_s=_LOAD_S).stdout
