"""Which walk belongs to which vendor."""

from collections.abc import Mapping
from typing import Final

from extender.fitting.nvidia import NvidiaWalk
from extender.fitting.rules.amd import AmdWalk
from extender.fitting.rules.ascend import AscendWalk
from extender.fitting.rules.cambricon import CambriconWalk
from extender.fitting.rules.enflame import DrsWalk, GcuWalk
from extender.fitting.rules.kunlun import KunlunShareWalk, KunlunWalk
from extender.fitting.rules.metax import MetaxShareWalk
from extender.fitting.rules.neuron import NeuronWalk
from extender.fitting.rules.onedevice import MetaxWalk, MthreadsWalk
from extender.fitting.rules.vastai import CountWalk, VastaiWalk
from extender.fitting.walk import Walk
from hami.requests import NVIDIA
from hami.vendor_rules.ascend import AscendRule
from hami.vendors import Vendor

_BY_WORD: Final[Mapping[str, type[Walk]]] = {
    NVIDIA: NvidiaWalk,
    "MLU": CambriconWalk,
    "AMD": AmdWalk,
    "Mthreads": MthreadsWalk,
    "Metax-GPU": MetaxWalk,
    "Metax-SGPU": MetaxShareWalk,
    "kunlun": KunlunWalk,
    "XPU": KunlunShareWalk,
    "AWSNeuron": NeuronWalk,
    "Enflame": DrsWalk,
    "GCU": GcuWalk,
    "Vastai": VastaiWalk,
    "Biren": CountWalk,
}
"""Those that are not here do as all do: Hygon's and Iluvatar's."""


def walk_of(word: str, vendor: Vendor | None) -> type[Walk]:
    """Return how devices of a vendor are looked at."""
    if vendor is not None and isinstance(vendor.rule, AscendRule):
        return AscendWalk
    return _BY_WORD.get(word, Walk)
