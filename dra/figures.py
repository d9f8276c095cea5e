"""What the node offers in slices, in numbers, computed at each scrape.

Names and meaning are those that a node has which HAMi's protocol serves (`hami.plugin.figures`), so
one question about free GPUs finds both. What the server holds counts, not what was sent.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from dra.devicehealth import DeviceHealth
from dra.record import PreparedClaim
from gpu.names import CAPACITY_CORES, CAPACITY_MEMORY, CAPACITY_SHARES
from kube.objects import JsonObject
from kube.quantity import QuantityError, parse

_MIB: Final = 1 << 20
_WHOLE_CORES: Final = 100
_GPU: Final = "gpu"


class OfferedCollector(Collector):
    """Looks at the published devices, and at the health of these and of what claims hold."""

    def __init__(
        self,
        devices: Callable[[], Mapping[str, JsonObject]],
        health: Callable[[], Iterable[DeviceHealth]],
        claims: Callable[[], Mapping[str, PreparedClaim]],
    ) -> None:
        self._devices, self._health, self._claims = devices, health, claims

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the gauges as of now."""
        devices = self._devices()
        yield from self._of_health(devices)
        memory = _family("gpuslice_card_memory_mib", "Memory of a card as it is offered.")
        cores = _family("gpuslice_card_cores_percent", "Cores of a card as they are offered.")
        shares = _family("gpuslice_card_containers_max", "How many containers may share a card.")
        for device in devices.values():
            labels = [_text(device, "uuid")]
            if labels == [""]:
                continue
            amount = _capacity(device, CAPACITY_MEMORY)
            if amount is not None:
                memory.add_metric(labels, amount // _MIB)
            if _text(device, "type") == _GPU:
                whole = _capacity(device, CAPACITY_CORES)
                cores.add_metric(labels, _WHOLE_CORES if whole is None else whole)
            shares.add_metric(labels, _capacity(device, CAPACITY_SHARES) or 1)
        yield from (memory, cores, shares)

    def _of_health(self, devices: Mapping[str, JsonObject]) -> Iterator[GaugeMetricFamily]:
        uuids = {name: _text(device, "uuid") for name, device in devices.items()}
        for claim in tuple(self._claims().values()):
            for held in claim.devices:
                uuids.setdefault(held.device, held.uuid)
        family = _family("gpuslice_card_healthy", "Whether a card may get new pods.")
        for each in self._health():
            if each.name in uuids:
                family.add_metric([uuids[each.name]], int(each.healthy))
        yield family


def _family(name: str, text: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, text, labels=["uuid"])


def _text(device: JsonObject, attribute: str) -> str:
    return str(((device.get("attributes") or {}).get(attribute) or {}).get("string", ""))


def _capacity(device: JsonObject, name: str) -> int | None:
    try:
        return parse(str(device["capacity"][name]["value"])).value()
    except (QuantityError, LookupError, TypeError):
        return None
