"""What device plugins' answers add to a container.

Of two answers that say different things about one name the first is kept, and which that is, is
chance. A pod's own environment and mounts come after these and win; CDI devices come after all
(kubelet: `pod_devices.go`, deviceRunContainerOptions; `kubelet_pods.go`).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from protos import deviceplugin_v1beta1_pb2 as wire
from sim.runtime.container import MountView
from sim.runtime.inject import HostDevice, on_host


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceOptions:
    """Additions to one container."""

    env: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[MountView, ...] = ()
    devices: tuple[HostDevice, ...] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)
    cdi_devices: tuple[str, ...] = ()


def options_of(answers: Iterable[wire.ContainerAllocateResponse], root: Path) -> DeviceOptions:
    """Join *answers* into one; *root* is where the node's files lie."""
    env: dict[str, str] = {}
    mounts: dict[str, MountView] = {}
    devices: dict[str, HostDevice] = {}
    annotations: dict[str, str] = {}
    names: dict[str, None] = {}
    for answer in answers:
        env = {**answer.envs, **env}
        annotations = {**answer.annotations, **annotations}
        names |= dict.fromkeys(one.name for one in answer.cdi_devices)
        for mount in answer.mounts:
            mounts.setdefault(mount.container_path, _mount(mount, root))
        for device in answer.devices:
            found = HostDevice(
                path=device.container_path,
                host_path=device.host_path,
                permissions=device.permissions,
            )
            devices.setdefault(device.container_path, found)
    return DeviceOptions(
        env=env,
        mounts=tuple(mounts.values()),
        devices=tuple(devices.values()),
        annotations=annotations,
        cdi_devices=tuple(names),
    )


def _mount(mount: wire.Mount, root: Path) -> MountView:
    return MountView(
        container_path=mount.container_path,
        type="bind",
        options=("rbind", "ro") if mount.read_only else ("rbind", "rw"),
        host_path=mount.host_path,
        source=str(on_host(root, mount.host_path)),
    )
