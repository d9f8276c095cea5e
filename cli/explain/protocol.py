"""Whether HAMi's annotation protocol decides about a pod, by what the pod asks for.

A pod that a webhook has translated has claims and is explained by these, and so is one whose
resources device classes serve.
"""

from collections.abc import Iterator
from pathlib import Path

from cli.explain.errors import InputError
from hami import deviceconfig, resources
from hami.containers import all_containers
from hami.deviceconfig import DeviceConfig, DeviceConfigError
from hami.requests import Absent
from kube.objects import JsonObject
from sim.explain.snapshot import Snapshot


def configuration(path: Path | None) -> DeviceConfig:
    """Return what HAMi is told of devices; raises `InputError`.

    Without a file only NVIDIA's devices are known, as for the extender.
    """
    if path is None:
        return DeviceConfig(vendors=())
    try:
        return deviceconfig.parse(path.read_text(), ascend=True, iluvatar=True)
    except (OSError, UnicodeDecodeError, DeviceConfigError) as error:
        message = f"--device-config: {path}: {error}"
        raise InputError(message) from error


def decides(pod: JsonObject, snapshot: Snapshot, config: DeviceConfig) -> bool:
    """Tell whether *pod* asks in HAMi's words for what no claim serves."""
    if pod["spec"].get("resourceClaims"):
        return False
    if isinstance(resources.read(pod, config), Absent):
        return False
    classes = snapshot.classes.values()
    served = {str((item.get("spec") or {}).get("extendedResourceName")) for item in classes}
    known = served & (config.nvidia.keys | config.vendor_keys)
    return known.isdisjoint(_named(pod))


def _named(pod: JsonObject) -> Iterator[str]:
    for container in all_containers(pod):
        said = container.raw.get("resources") or {}
        for side in ("limits", "requests"):
            yield from said.get(side) or ()
