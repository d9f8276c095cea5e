"""When Python looks for garbage among objects, in a process that keeps hundreds of thousands.

Nearly all that is read at the start stays, and to look through it again and again while it grows
takes as long as reading it. Later a look at everything would keep decisions waiting, so what is
there is left out of all looks: what ends without a cycle is freed nevertheless. Only young objects
are looked at often.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_AT_START: Final = (50_000, 100, 1000)
_LATER: Final = (1_000, 10, 1_000)


@contextmanager
def seldom() -> Iterator[None]:
    """Look for garbage seldom, until `settle` and until the end of the block."""
    before = gc.get_threshold()
    gc.set_threshold(*_AT_START)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def settle() -> None:
    """Leave all that is there now out of later looks."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_LATER)
