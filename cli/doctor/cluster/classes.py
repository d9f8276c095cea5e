"""The check of our DeviceClasses: there, and still saying what they are to say.

A class that somebody has changed gives other devices than its name promises, or stops the
scheduling of a pod where its expression meets an attribute that a foreign device lacks.
"""

from typing import Final

from cli.doctor.cluster.view import Cluster, name_of
from cli.doctor.model import Check, Verdict, failed, ok, warning
from gpu.names import CLASS_MIG, CLASS_SHARE, CLASS_WHOLE, DRIVER
from kube import paths
from kube.objects import JsonObject

_MODE: Final = f'device.attributes["{DRIVER}"].mode'
_OURS: Final = f'device.driver == "{DRIVER}" && {_MODE}'
SELECTORS: Final = {
    CLASS_WHOLE: f'{_OURS} in ["shared", "exclusive"]',
    CLASS_SHARE: f'{_OURS} == "shared"',
    CLASS_MIG: f'{_OURS} == "mig"',
}
_REMEDY: Final = "apply the DeviceClasses of the chart again"


def device_classes(cluster: Cluster) -> Verdict:
    """Look for the three classes and read their selectors."""
    there = {name_of(each): each for each in cluster.items(paths.device_classes())}
    missing = [name for name in SELECTORS if name not in there]
    if missing:
        return failed(f"not there: {', '.join(missing)}", _REMEDY)
    changed = [name for name, text in SELECTORS.items() if selectors(there[name]) != [text]]
    if changed:
        details = [f"{name}: {' AND '.join(selectors(there[name]))}" for name in changed]
        return warning(f"changed: {', '.join(changed)}", _REMEDY, *details)
    names = {name: (each.get("spec") or {}) for name, each in there.items() if name in SELECTORS}
    extended = [
        f"{name} as {spec['extendedResourceName']}"
        for name, spec in names.items()
        if spec.get("extendedResourceName")
    ]
    return ok("all three are there and unchanged" + (f"; {extended[0]}" if extended else ""))


def selectors(device_class: JsonObject) -> list[str]:
    """Return the expressions of a class with their blanks made even."""
    found = (device_class.get("spec") or {}).get("selectors") or ()
    return [" ".join(str((each.get("cel") or {}).get("expression", "")).split()) for each in found]


CHECKS: Final = (Check(id="device-classes", run=device_classes),)
