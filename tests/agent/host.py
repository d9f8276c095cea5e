"""A node's files: GPUs, driver, kubelet's directories, and what the agent leaves in them."""

import fcntl
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from cdi.library import make_placeholder
from dra.record import PreparedClaim
from dra.state import StateStore
from gpu import names
from sim import driverroot, gpufile, hardware
from tests.agent import mounts

NODE = "node-a"
GPUS = "gpus: [{profile: l4}, {profile: a10}, {profile: a100-40gb, mig: [1g.5gb, 2g.10gb]}]"


@dataclass(frozen=True, slots=True)
class Holdings:
    """What a node holds for claims, by UID, as found on its disk."""

    prepared: frozenset[str] = frozenset()
    specs: frozenset[str] = frozenset()
    regions: frozenset[str] = frozenset()
    mounts: tuple[str, ...] = ()
    other: frozenset[str] = frozenset()
    """Names in the CDI directory that are no claim's spec."""


class Host:
    """One node below *root*, whose path must be short because sockets lie below it."""

    def __init__(self, root: Path, gpus: str = GPUS) -> None:
        self.root = root
        self.gpus_file = root / "gpus.yaml"
        self.files = root / "host"
        self.kubelet_root = root / "k"
        self.cdi = root / "cdi"
        self.library = root / "libvgpu.so"
        self.plugin = self.kubelet_root / "plugins" / names.DRIVER
        self.regions = self.plugin / "regions"
        self.state = self.plugin / "state"
        self.registry = self.kubelet_root / "plugins_registry"
        self._boots = 0
        make_placeholder(self.library)
        self.set_gpus(gpus)

    @property
    def gpus(self) -> tuple[hardware.SimGpu, ...]:
        """Return the GPUs in the order of the file."""
        return hardware.gpus(gpufile.load(self.gpus_file))

    def device(self, index: int) -> str:
        """Return the published name of GPU *index*."""
        return names.device_name(self.gpus[index].uuid)

    def partition(self, index: int, position: int) -> str:
        """Return the published name of a MIG device of GPU *index*."""
        return names.device_name(self.gpus[index].mig[position].uuid)

    def set_gpus(self, gpus: str) -> None:
        """Make the node one with the GPUs that the YAML text *gpus* names."""
        fresh = self.gpus_file.with_suffix(".new")
        fresh.write_text(f"node: {NODE}\n{gpus}\n", encoding="utf-8")
        # As on a node, a GPU has its files before NVML knows of it.
        self._build_driver(fresh)
        fresh.replace(self.gpus_file)

    def install_driver(self) -> None:
        """Put the driver's files there, as they are for the GPUs now."""
        self._build_driver(self.gpus_file)

    def _build_driver(self, gpus_file: Path) -> None:
        driverroot.build(gpufile.load(gpus_file), self.files)
        self._write_boot_id()

    def remove_driver(self) -> None:
        """Take the driver's libraries away."""
        shutil.rmtree(self.files / "run")

    def reboot(self) -> None:
        """Lose what a reboot loses: the CDI directory, mounts, the boot's id."""
        shutil.rmtree(self.cdi, ignore_errors=True)
        self.unmount()
        self._boots += 1
        self._write_boot_id()

    def boot_id(self) -> str:
        """Return the id of the present boot."""
        return f"boot-{self._boots}"

    def forget(self) -> None:
        """Be a node on which no agent ever ran."""
        self.unmount()
        for directory in (self.cdi, self.state, self.regions):
            shutil.rmtree(directory, ignore_errors=True)

    def unmount(self) -> None:
        """Take off all that is mounted below the node's directory."""
        for point in reversed(mounts.mounted_below(self.root)):
            mounts.unmount(point)

    def holdings(self, prepared: Iterable[str] | None = None) -> Holdings:
        """Return what is on the disk now; *prepared* spares the look into the state."""
        in_cdi = {path.name for path in self.cdi.iterdir()} if self.cdi.is_dir() else set()
        prefix, suffix = "k8s.gpuslice.io-claim_", ".json"
        specs = {name for name in in_cdi if name.startswith(prefix) and name.endswith(suffix)}
        regions = self.regions.iterdir() if self.regions.is_dir() else ()
        return Holdings(
            prepared=frozenset(self.claims() if prepared is None else prepared),
            specs=frozenset(name.removeprefix(prefix).removesuffix(suffix) for name in specs),
            regions=frozenset(path.name for path in regions),
            mounts=tuple(sorted(path.name for path in mounts.mounted_below(self.regions))),
            other=frozenset(in_cdi - specs),
        )

    def temporary_files(self) -> list[Path]:
        """Return what writes that never finished have left anywhere."""
        return [path for root in (self.plugin, self.cdi) for path in root.rglob(".*.tmp")]

    def claims(self) -> dict[str, PreparedClaim]:
        """Return the prepared claims by UID, read from a copy of the state."""
        copy = self.root / "state-copy"
        shutil.rmtree(copy, ignore_errors=True)
        # Not while an agent writes.
        with (self.state / "lock").open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            shutil.copytree(self.state, copy)
        store = StateStore(copy, boot_id="a test")
        store.open()
        try:
            return dict(store.claims())
        finally:
            store.close()

    def spec(self, claim_uid: str) -> Path:
        """Return the CDI spec of a claim."""
        return self.cdi / f"k8s.gpuslice.io-claim_{claim_uid}.json"

    def region(self, claim_uid: str) -> Path:
        """Return the region of a claim."""
        return self.regions / claim_uid / "region.cache"

    def _write_boot_id(self) -> None:
        path = self.files / "proc/sys/kernel/random/boot_id"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{self.boot_id()}\n", encoding="utf-8")


def held(*limited: str, whole: frozenset[str] = frozenset()) -> Holdings:
    """Return what a node holds for claims that have limits and for claims that have none."""
    with_limits = frozenset(limited)
    return Holdings(
        prepared=with_limits | whole,
        specs=with_limits | whole,
        regions=with_limits,
        mounts=tuple(sorted(with_limits)) if mounts.may_mount() else (),
    )
