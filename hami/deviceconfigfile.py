"""Reads HAMi's `device-config.yaml` from where an administrator has put it."""

from pathlib import Path

from hami import deviceconfig
from hami.deviceconfig import DeviceConfig, DeviceConfigError


def read(
    path: Path, *, ascend: bool = False, iluvatar: bool = False, neuron_cores_per_device: int = 2
) -> DeviceConfig:
    """Return what the file at *path* says; raises `DeviceConfigError`, which names the file."""
    try:
        return deviceconfig.parse(
            path.read_text(),
            ascend=ascend,
            iluvatar=iluvatar,
            neuron_cores_per_device=neuron_cores_per_device,
        )
    except (OSError, UnicodeDecodeError, DeviceConfigError) as error:
        message = f"{path}: {error}"
        raise DeviceConfigError(message) from error
