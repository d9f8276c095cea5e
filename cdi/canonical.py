"""One order for edits that mean the same, so that equal inputs give equal bytes.

Within one file the runtime lets the last assignment of a variable, the last node of a path and
the last mount on a destination win, and then orders mounts by depth itself; so after keeping the
last of each, the order of these lists means nothing and is made the alphabet's. Hooks run in the
order given, doubled ones twice: they stay as they are.
"""

from cdi.edits import ContainerEdits, DeviceNode, Mount


def _by_depth(path: str) -> tuple[int, str]:
    return path.count("/"), path


def _env(env: tuple[str, ...]) -> tuple[str, ...]:
    last = {text.partition("=")[0]: text for text in env}
    return tuple(last[name] for name in sorted(last))


def _nodes(nodes: tuple[DeviceNode, ...]) -> tuple[DeviceNode, ...]:
    last = {node.path: node for node in nodes}
    return tuple(last[path] for path in sorted(last, key=_by_depth))


def _mounts(mounts: tuple[Mount, ...]) -> tuple[Mount, ...]:
    last = {mount.container_path: mount for mount in mounts}
    return tuple(last[path] for path in sorted(last, key=_by_depth))


def canonical_edits(edits: ContainerEdits) -> ContainerEdits:
    """Return *edits* de-duplicated and in the one order, with the same effect."""
    return edits.model_copy(
        update={
            "env": _env(edits.env),
            "device_nodes": _nodes(edits.device_nodes),
            "mounts": _mounts(edits.mounts),
            "additional_gids": tuple(sorted(set(edits.additional_gids))),
            "net_devices": tuple(
                sorted(edits.net_devices, key=lambda device: device.host_interface_name)
            ),
        }
    )
