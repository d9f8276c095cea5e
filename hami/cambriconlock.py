"""The lock of nodes with Cambricon's devices, which is a bare time.

Nobody is named, so only who has set it may remove it, which HAMi does not heed, and two minutes
later anybody may (HAMi v2.10: `pkg/device/cambricon/device.go`).
"""

from datetime import datetime, timedelta
from typing import Final

from hami.nodelock import Decision, NodeLock, Verdict, encode, parse
from hami.reading import Undecodable

TIMEOUT: Final = timedelta(minutes=2)


def value(now: datetime) -> str:
    """Return the annotation of a lock that is set *now*."""
    return encode(NodeLock(at=now))


def decide(found: str | None, *, node: str, now: datetime) -> Decision:
    """Tell what to do about the lock of *node* that reads *found*."""
    if found is None:
        return Decision(verdict=Verdict.SET)
    lock = parse(found)
    if isinstance(lock, Undecodable):
        return Decision(verdict=Verdict.MALFORMED, text=lock.reason)
    if now - lock.at < TIMEOUT:
        text = f"node {node} has been locked within 2 minutes"
        return Decision(verdict=Verdict.WAIT, text=text)
    return Decision(verdict=Verdict.BREAK)
