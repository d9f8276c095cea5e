"""What a spec asks of the runtime: environment, device nodes, mounts, hooks and the rest.

The rules are those of the library that containerd and CRI-O use (CDI: pkg/cdi/container-edits.go)
and no stricter, so that a document passes here exactly when it passes there; what we write
ourselves also has to pass `cdi.emit`. Field names follow specs-go/config.go.
"""

from collections.abc import Iterable
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from cdi.wire import Int64, Part, Text, Uint32

_CLOS_ID_LIMIT = 4096
_HOOKS = frozenset(
    {"prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop"}
)


def _assignment(text: str) -> str:
    if text.find("=") < 1:
        raise ValueError("has to be NAME=value")
    return text


def _permissions(text: str) -> str:
    if text != "none" and not set(text) <= set("rwm"):
        raise ValueError("has to be made of r, w and m, or be `none`")
    return text


def _hook_name(text: str) -> str:
    if text not in _HOOKS:
        reason = f"has to be one of {', '.join(sorted(_HOOKS))}"
        raise ValueError(reason)
    return text


def _clos_id(text: str) -> str:
    bad = text in {".", ".."} or len(text) >= _CLOS_ID_LIMIT or "/" in text or "\n" in text
    if bad and text != "/":
        raise ValueError("is no name of a resctrl directory")
    return text


NonEmpty = Annotated[Text, Field(min_length=1)]
Assignment = Annotated[Text, AfterValidator(_assignment)]


class DeviceNode(Part):
    """A device to make at *path*; the runtime asks the host where type and major are missing."""

    path: NonEmpty
    host_path: Text = ""
    """Empty: same as *path*."""
    type: Literal["", "b", "c", "u", "p"] = ""
    major: Int64 | None = None
    minor: Int64 | None = None
    file_mode: Uint32 | None = None
    permissions: Annotated[Text, AfterValidator(_permissions)] = ""
    uid: Uint32 | None = None
    gid: Uint32 | None = None


class Mount(Part):
    """A mount; without a *type* and with `bind` or `rbind` in *options* a bind mount."""

    host_path: NonEmpty
    container_path: NonEmpty
    options: tuple[Text, ...] = ()
    type: Text = ""


class Hook(Part):
    """An OCI hook; *args* begins with the program's own name, *timeout* is in seconds."""

    hook_name: Annotated[Text, AfterValidator(_hook_name)]
    path: NonEmpty
    args: tuple[Text, ...] = ()
    env: tuple[Assignment, ...] = ()
    timeout: Int64 | None = None


class IntelRdt(Part):
    """Cache and memory bandwidth classes; we only read it."""

    clos_id: Annotated[Text, AfterValidator(_clos_id)] = Field(default="", alias="closID")
    l3_cache_schema: Text = Field(default="", alias="l3CacheSchema")
    mem_bw_schema: Text = ""
    schemata: tuple[Text, ...] | None = None
    enable_monitoring: Annotated[bool, Field(strict=True)] = False


class NetDevice(Part):
    """A host's network interface to move into the container."""

    host_interface_name: NonEmpty
    name: NonEmpty


class ContainerEdits(Part):
    """All edits of one device, or those that all devices of a file have in common."""

    env: tuple[Assignment, ...] = ()
    device_nodes: tuple[DeviceNode, ...] = ()
    hooks: tuple[Hook, ...] = ()
    mounts: tuple[Mount, ...] = ()
    intel_rdt: IntelRdt | None = None
    additional_gids: tuple[Uint32, ...] = ()
    net_devices: tuple[NetDevice, ...] = ()

    def is_empty(self) -> bool:
        """Tell whether the library would see nothing to do here."""
        lists = (
            self.env,
            self.device_nodes,
            self.hooks,
            self.mounts,
            self.additional_gids,
            self.net_devices,
        )
        return self.intel_rdt is None and not any(lists)

    @model_validator(mode="after")
    def _unique_interfaces(self) -> Self:
        for names in (
            [device.host_interface_name for device in self.net_devices],
            [device.name for device in self.net_devices],
        ):
            if len(set(names)) != len(names):
                raise ValueError("a network interface is named twice")
        return self


def merge(edits: Iterable[ContainerEdits]) -> ContainerEdits:
    """Return all *edits* one after the other, as the runtime applies them; the last RDT wins."""
    parts = list(edits)
    rdts = [part.intel_rdt for part in parts if part.intel_rdt is not None]
    return ContainerEdits(
        env=tuple(item for part in parts for item in part.env),
        device_nodes=tuple(item for part in parts for item in part.device_nodes),
        hooks=tuple(item for part in parts for item in part.hooks),
        mounts=tuple(item for part in parts for item in part.mounts),
        intel_rdt=rdts[-1] if rdts else None,
        additional_gids=tuple(item for part in parts for item in part.additional_gids),
        net_devices=tuple(item for part in parts for item in part.net_devices),
    )
