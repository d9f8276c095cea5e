"""Reads HAMi's `device-config.yaml` from where an administrator has put it.

It is read at a start and never again: names of resources are in what was registered, annotated and
booked by then. What is in use is told by its hash, and whoever changes the file restarts the pods.
"""

from pathlib import Path
from typing import Final, NamedTuple

import structlog

from hami import deviceconfig
from hami.deviceconfig import DeviceConfig, DeviceConfigError
from kube.configfile import FileInUse, FileState

log = structlog.get_logger(__name__)

NAME: Final = "device-config"
"""Of the flag and in metrics."""


class Loaded(NamedTuple):
    """What a program works by, and the file that says it, if any."""

    config: DeviceConfig
    file: FileInUse | None = None

    @property
    def files(self) -> tuple[FileInUse, ...]:
        """The file, or nothing."""
        return () if self.file is None else (self.file,)

    def states(self) -> tuple[FileState, ...]:
        """Return what is to be said of it now."""
        return tuple(each.state() for each in self.files)


def load(
    path: Path, *, ascend: bool = False, iluvatar: bool = False, neuron_cores_per_device: int = 2
) -> Loaded:
    """Read the file at *path*, log what is odd in it; `DeviceConfigError` names the file."""
    try:
        content = path.read_bytes()
        config = deviceconfig.parse(
            content.decode(),
            ascend=ascend,
            iluvatar=iluvatar,
            neuron_cores_per_device=neuron_cores_per_device,
        )
    except (OSError, UnicodeDecodeError, DeviceConfigError) as error:
        message = f"{path}: {error}"
        raise DeviceConfigError(message) from error
    for warning in config.warnings:
        log.warning("device configuration is odd", code=warning.code, said=str(warning))
    return Loaded(config, FileInUse(NAME, path, content))
