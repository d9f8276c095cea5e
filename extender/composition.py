"""Puts the extender together as its settings say."""

import structlog

from extender.choosing_parts import state_parts
from extender.parts import Parts, StartError, Surroundings
from extender.settings import ExtenderSettings
from hami import deviceconfigfile
from hami.deviceconfig import DeviceConfig, DeviceConfigError

log = structlog.get_logger(__name__)


def make_parts(surroundings: Surroundings) -> Parts:
    """Return all parts; raises `StartError`."""
    return state_parts(device_config(surroundings.settings))(surroundings)


def device_config(settings: ExtenderSettings) -> DeviceConfig:
    """Return the configuration that the settings point to; raises `StartError`.

    Without one only NVIDIA's devices are managed, as in the shipped policy of kube-scheduler.
    """
    path = settings.device_config
    if path is None:
        return DeviceConfig(vendors=())
    try:
        config = deviceconfigfile.read(
            path,
            ascend=settings.enable_ascend,
            iluvatar=settings.enable_iluvatar,
            neuron_cores_per_device=settings.neuron_cores_per_device,
        )
    except DeviceConfigError as error:
        message = f"--device-config: {error}"
        raise StartError(message) from error
    for warning in config.warnings:
        log.warning("device configuration is odd", code=warning.code, said=str(warning))
    return config
