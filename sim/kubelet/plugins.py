"""All plugin instances of a node, several per driver while one is being replaced.

Kubelet uses the most recently registered instance whose connection is up, else the latest
(kubelet: `pkg/kubelet/cm/dra/plugin/dra_plugin_manager.go`).
"""

import threading

from sim.kubelet.errors import RegistrationError
from sim.kubelet.plugin import Plugin


class Plugins:
    """The registered instances by driver, in order of registration; usable from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._instances: dict[str, list[Plugin]] = {}

    def add(self, plugin: Plugin) -> None:
        """Take *plugin* into use; raise `RegistrationError` when its endpoint is in use."""
        with self._lock:
            known = self._instances.setdefault(plugin.info.driver, [])
            if any(other.info.endpoint == plugin.info.endpoint for other in known):
                message = f"endpoint {plugin.info.endpoint} already registered"
                raise RegistrationError(message)
            known.append(plugin)

    def remove(self, plugin: Plugin) -> None:
        """Take *plugin* out of use; nothing happens when it is not in use."""
        with self._lock:
            known = self._instances.get(plugin.info.driver, [])
            if plugin in known:
                known.remove(plugin)
            if not known:
                self._instances.pop(plugin.info.driver, None)

    def find(self, driver: str) -> Plugin | None:
        """Return the instance to call; `None` when the driver is not registered."""
        instances = self.instances(driver)
        up = [plugin for plugin in instances if plugin.connected]
        usable = up or instances
        return usable[-1] if usable else None

    def instances(self, driver: str) -> list[Plugin]:
        """Return the instances of *driver* in order of registration."""
        with self._lock:
            return list(self._instances.get(driver, []))

    def drivers(self) -> list[str]:
        """Return the drivers with an instance, sorted."""
        with self._lock:
            return sorted(self._instances)
