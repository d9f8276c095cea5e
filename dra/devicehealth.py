"""What is said of a published device's health, in one form for all who say it.

Taints tell the scheduler, the health stream tells kubelet and so the pod, conditions tell the
claim: they must not contradict one another, so all are made from this value.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceHealth:
    """The health of one device, whether it is published or was while a claim holds it."""

    name: str
    """The published name."""
    healthy: bool
    code: str = ""
    """Why it is not, as one word such as `Xid79`; empty where it is."""
    message: str = ""
    """The same for people: ASCII, at most 200 characters."""
