"""Whether a device is one that a request asks for: class selectors first, then its own.

A selector that gives no answer stops the pod on all nodes, as it does in the scheduler: a
missing key must not silently mean "no".
"""

from collections.abc import Iterator

from sim.scheduler.devices import Device
from sim.scheduler.errors import CelError, FatalError
from sim.scheduler.pools import reaches
from sim.scheduler.requests import Wanted
from sim.scheduler.scene import Scene
from sim.scheduler.verdicts import Refused


class Selection:
    """Answers once per device and request in one attempt."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._known: dict[tuple[Wanted, Device], Refused | None] = {}

    def refusal(self, wanted: Wanted, device: Device) -> Refused | None:
        """Say why *wanted* does not ask for *device*; raises `FatalError`."""
        key = (wanted, device)
        if key not in self._known:
            self._known[key] = self._judge(wanted, device)
        return self._known[key]

    def _judge(self, wanted: Wanted, device: Device) -> Refused | None:
        if device.binding_conditions and not self._scene.features.binding_conditions:
            return Refused("BindingConditionsUnsupported")
        for expression in self._expressions(wanted):
            if not self._satisfies(device, expression):
                return Refused("SelectorFalse", expression)
        if device.place is not None and not reaches(device.place, self._scene.node):
            return Refused("DeviceOfOtherNode")
        return None

    def _expressions(self, wanted: Wanted) -> Iterator[str]:
        spec = self._scene.classes[wanted.class_name].get("spec") or {}
        selectors = [*(spec.get("selectors") or ()), *wanted.selectors]
        return (str(selector["cel"]["expression"]) for selector in selectors)

    def _satisfies(self, device: Device, expression: str) -> bool:
        try:
            return self._scene.matches(expression, device)
        except CelError as error:
            raise FatalError("SelectorFailed", f"device {device.id}: {error}") from error
