"""Puts the extender together as its settings say."""

from dataclasses import replace

from extender.choosing_parts import state_parts
from extender.parts import Parts, StartError, Surroundings
from extender.settings import ExtenderSettings
from hami.deviceconfig import DeviceConfig, DeviceConfigError
from hami.deviceconfigfile import Loaded, load
from kube.configfile import FileFigures, FileWatch


def make_parts(surroundings: Surroundings) -> Parts:
    """Return all parts; raises `StartError`."""
    loaded = device_config(surroundings.settings)
    surroundings.metrics.registry.register(FileFigures(loaded.states))
    parts = state_parts(loaded.config)(surroundings)
    return replace(parts, background=(*parts.background, FileWatch(loaded.files)))


def device_config(settings: ExtenderSettings) -> Loaded:
    """Return the configuration that the settings point to; raises `StartError`.

    Without one only NVIDIA's devices are managed, as in the shipped policy of kube-scheduler.
    """
    path = settings.device_config
    if path is None:
        return Loaded(DeviceConfig(vendors=()))
    try:
        return load(
            path,
            ascend=settings.enable_ascend,
            iluvatar=settings.enable_iluvatar,
            neuron_cores_per_device=settings.neuron_cores_per_device,
        )
    except DeviceConfigError as error:
        message = f"--device-config: {error}"
        raise StartError(message) from error
