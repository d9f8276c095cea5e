"""Which walk belongs to which vendor, and what vendors add to scores and annotations."""

from collections.abc import Mapping
from typing import Final

from extender.fitting.nvidia import NvidiaWalk
from extender.fitting.walk import Walk
from hami.requests import NVIDIA
from hami.vendors import Vendor

_BY_WORD: Final[Mapping[str, type[Walk]]] = {NVIDIA: NvidiaWalk}


def walk_of(word: str, vendor: Vendor | None) -> type[Walk]:
    """Return how devices of a vendor are looked at."""
    del vendor
    return _BY_WORD.get(word, Walk)
