"""Builders of nodes of vendors other than NVIDIA."""

from typing import Any

from extender.model import DeviceUsage, NodeUsage
from extender.synthesis import devices_of_capacity
from hami.backends import backends
from tests.extender.nodes import ALL_VENDORS, device, node, usage

NOW_S = "1700000000"
NOW_NS = NOW_S + "000000000"
BACKENDS = {each.word: each for each in backends(ALL_VENDORS)}
MUTEX = {"hami.io/gpu-scheduler-policy": "mutex"}


def made_up(word: str, name: str = "n", **labels: str) -> Any:
    """Return a builder of a node whose devices follow from its capacity."""

    def build(capacity: dict[str, str], *used: int) -> NodeUsage:
        devices = devices_of_capacity(BACKENDS[word], name, capacity)
        usages = [
            usage(each, *((1, each.memory_mib, each.cores) if each.index in used else ()))
            for each in devices
        ]
        return node(*usages, name=name, labels=labels)

    return build


def devices(word: str, number: int, /, **said: Any) -> list[DeviceUsage]:
    """Return idle devices D0, D1 and so on of a vendor."""
    fields = {"word": word, "type": word, "mode": ""} | said
    return [usage(device(f"D{index}", index, **fields)) for index in range(number)]
