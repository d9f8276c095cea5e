"""Parse quantities once per text: a cluster has few of them, and thousands of times each."""

from functools import lru_cache

from kube import quantity
from kube.quantity import Quantity


@lru_cache(maxsize=8192)
def parse(text: str) -> Quantity:
    """Return the quantity that *text* says; raises `QuantityError`."""
    return quantity.parse(text)
