"""The runtime of one node: makes containers, keeps them as data, leaves a file for each.

The files (`<containers>/<pod uid>/<container>.json`) let other processes see what a container
got. CDI directories are read again for every container, as containerd and CRI-O do. CDI names come
in the request and in annotations of the container, whose keys begin with `cdi.k8s.io/`.
"""

import shutil
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import structlog

from sim.runtime.cdi import resolve, scan
from sim.runtime.container import ContainerView, MountView, PodRef, State, to_json
from sim.runtime.inject import (
    Draft,
    HostDevice,
    add_host_device,
    add_mount,
    apply,
    check_mounts,
    sort_mounts,
)

log = structlog.get_logger(__name__)

_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_OWN_MOUNTS: Final = (
    MountView(container_path="/proc", type="proc"),
    MountView(container_path="/dev", type="tmpfs"),
    MountView(container_path="/dev/pts", type="devpts"),
    MountView(container_path="/dev/mqueue", type="mqueue"),
    MountView(container_path="/dev/shm", type="tmpfs"),  # noqa: S108  # a mount point, not a file
    MountView(container_path="/sys", type="sysfs", options=("ro",)),
)

_CDI_ANNOTATION: Final = "cdi.k8s.io/"

_Key = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerRequest:
    """What kubelet asks for."""

    pod: PodRef
    container: str
    image: str = ""
    command: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[MountView, ...] = ()
    cdi_devices: tuple[str, ...] = ()
    devices: tuple[HostDevice, ...] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)
    restart_count: int = 0

    @property
    def cdi_names(self) -> tuple[str, ...]:
        """Return all CDI names, those of annotations only where they are new."""
        keys = sorted(key for key in self.annotations if key.startswith(_CDI_ANNOTATION))
        noted = dict.fromkeys(name for key in keys for name in self.annotations[key].split(","))
        return (*self.cdi_devices, *(name for name in noted if name not in self.cdi_devices))


class Runtime:
    """Make and keep the containers of one node; usable from any thread."""

    def __init__(
        self, *, root: Path, containers_dir: Path, cdi_dirs: Sequence[Path] | None = None
    ) -> None:
        self.root = root
        self.cdi_dirs = tuple(cdi_dirs or (root / "etc/cdi", root / "var/run/cdi"))
        self._dir = containers_dir
        self._lock = threading.Lock()
        self._containers: dict[_Key, ContainerView] = {}
        self._sandboxes: set[str] = set()

    def add_sandbox(self, pod_uid: str) -> None:
        """Make the place for a pod's containers; kubelet prepares claims before it does this."""
        with self._lock:
            self._sandboxes.add(pod_uid)

    def has_sandbox(self, pod_uid: str) -> bool:
        """Tell whether a pod has a place for containers."""
        with self._lock:
            return pod_uid in self._sandboxes

    def start(self, request: ContainerRequest) -> ContainerView:
        """Create a container and let it run; raise `ContainerError` when it cannot be made."""
        edits = resolve(scan(self.cdi_dirs), request.cdi_names)
        draft = Draft(
            host_root=self.root,
            env={"PATH": _PATH, "HOSTNAME": request.pod.name, **request.env},
            mounts=list(_OWN_MOUNTS),
        )
        for mount in request.mounts:
            add_mount(draft, mount)
        sort_mounts(draft)
        for device in request.devices:
            add_host_device(draft, device)
        # CDI comes last, after everything that the pod asked for.
        apply(draft, edits)
        check_mounts(draft)
        view = _view(request, draft)
        self._keep(view)
        log.info("container started", pod_uid=view.pod.uid, container=view.container)
        return view

    def exit(self, pod_uid: str, container: str, *, exit_code: int) -> None:
        """Let a container end by itself; nothing happens when it is not running."""
        with self._lock:
            view = self._containers.get((pod_uid, container))
        if view is not None and view.state is State.RUNNING:
            self._keep(view.exited(exit_code, at=_now()))

    def stop_pod(self, pod_uid: str) -> None:
        """End the running containers of a pod as SIGTERM would."""
        for view in self.containers():
            if view.pod.uid == pod_uid:
                self.exit(pod_uid, view.container, exit_code=143)

    def remove_pod(self, pod_uid: str) -> None:
        """Forget a pod and its containers and delete their files."""
        with self._lock:
            self._sandboxes.discard(pod_uid)
            for key in [key for key in self._containers if key[0] == pod_uid]:
                del self._containers[key]
        shutil.rmtree(self._dir / pod_uid, ignore_errors=True)

    def reset(self) -> None:
        """Lose all containers, as a node does when it reboots."""
        with self._lock:
            uids = self._sandboxes | {pod_uid for pod_uid, _ in self._containers}
        for uid in uids:
            self.remove_pod(uid)

    def containers(self) -> list[ContainerView]:
        """Return all containers, ended ones of existing pods included, oldest first."""
        with self._lock:
            return list(self._containers.values())

    def find(self, pod_uid: str, container: str) -> ContainerView | None:
        """Return one container; `None` when there is none."""
        with self._lock:
            return self._containers.get((pod_uid, container))

    def _keep(self, view: ContainerView) -> None:
        with self._lock:
            self._containers[view.pod.uid, view.container] = view
            directory = self._dir / view.pod.uid
            directory.mkdir(parents=True, exist_ok=True)
            # Readers in other processes must never see half a document.
            part = directory / f".{view.container}.tmp"
            part.write_bytes(to_json(view))
            part.replace(directory / f"{view.container}.json")


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _view(request: ContainerRequest, draft: Draft) -> ContainerView:
    return ContainerView(
        pod=request.pod,
        container=request.container,
        image=request.image,
        command=request.command,
        env=draft.env,
        mounts=tuple(draft.mounts),
        devices=tuple(draft.devices),
        hooks=tuple(draft.hooks),
        additional_gids=tuple(draft.additional_gids),
        cdi_devices=request.cdi_names,
        annotations=dict(request.annotations),
        started_at=_now(),
        restart_count=request.restart_count,
    )
