"""Who decides about devices: an explanation says whose rules it was made by."""

from enum import StrEnum


class Decider(StrEnum):
    """The two ways to a device."""

    CLAIMS = "claims"
    """kube-scheduler allocates claims."""
    ANNOTATIONS = "annotations"
    """An extender of the scheduler decides by HAMi's annotation protocol."""
