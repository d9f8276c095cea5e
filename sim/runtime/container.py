"""What a container got: a plain value, readable by tests, the demo and other processes.

A bind mount keeps both the path that the spec named on the node (`host_path`) and the file that
stands for it on this machine (`source`), since a simulated node's `/` is some directory here.
"""

from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path, PurePosixPath

from pydantic import TypeAdapter


class State(StrEnum):
    """How far a container has come."""

    RUNNING = "running"
    EXITED = "exited"


@dataclass(frozen=True, slots=True, kw_only=True)
class MountView:
    """One mount; *source* is `None` where nothing of the host is mounted."""

    container_path: str
    type: str
    options: tuple[str, ...] = ()
    host_path: str = ""
    source: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceView:
    """One device node."""

    path: str
    host_path: str
    type: str
    major: int
    minor: int
    permissions: str = "rwm"
    file_mode: int | None = None
    uid: int | None = None
    gid: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HookView:
    """One OCI hook that a real runtime would run."""

    hook_name: str
    path: str
    args: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    timeout_s: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PodRef:
    """The pod of a container."""

    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerView:
    """A container as its process would find it."""

    pod: PodRef
    container: str
    image: str
    command: tuple[str, ...] = ()
    env: dict[str, str]
    mounts: tuple[MountView, ...]
    devices: tuple[DeviceView, ...]
    hooks: tuple[HookView, ...] = ()
    additional_gids: tuple[int, ...] = ()
    cdi_devices: tuple[str, ...] = ()
    """As kubelet asked for them, repeated names included; those of annotations come last."""
    annotations: dict[str, str] = field(default_factory=dict)
    """The container's own, which a pod's object does not show."""
    state: State = State.RUNNING
    exit_code: int | None = None
    restart_count: int = 0
    started_at: str = ""
    """RFC 3339, as pod statuses carry it."""
    finished_at: str = ""

    @property
    def id(self) -> str:
        """Return the ID under which kubelet knows this run of the container."""
        return f"sim://{self.pod.uid}/{self.container}/{self.restart_count}"

    def exited(self, exit_code: int, *, at: str) -> "ContainerView":
        """Return the container after its end."""
        return replace(self, state=State.EXITED, exit_code=exit_code, finished_at=at)

    def visible(self, path: str) -> Path | None:
        """Return the file here that the container sees at *path*; `None` if no mount shows one.

        The deepest mount that covers *path* decides, as in a real mount namespace.
        """
        wanted = PurePosixPath(path)
        for mount in reversed(self.mounts):
            if not wanted.is_relative_to(mount.container_path):
                continue
            if mount.source is None:
                return None
            found = Path(mount.source) / wanted.relative_to(mount.container_path)
            return found if found.exists() else None
        return None


_ADAPTER = TypeAdapter(ContainerView)


def to_json(view: ContainerView) -> bytes:
    """Return *view* as a JSON document."""
    return _ADAPTER.dump_json(view, indent=1)


def from_json(document: bytes) -> ContainerView:
    """Return the view in a document of `to_json`."""
    return _ADAPTER.validate_json(document)
