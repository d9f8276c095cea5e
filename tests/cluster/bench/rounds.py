"""One round: pods that wait, a scheduler that starts, and the times at which they were bound."""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from kube import paths
from kube.client import Client
from kube.objects import JsonObject
from kube.reflector import Change, Reflector
from tests.cluster.images import PAUSE
from tests.patience import DEADLINE_S

NAMESPACE: Final = "rounds"


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """What came of one round."""

    pods: int
    took_s: float
    """From the first binding to the last."""
    scheduler_cpu_s: float
    """In that time."""

    @property
    def per_s(self) -> float:
        """Return pods, each with a claim of its own, per second."""
        return (self.pods - 1) / self.took_s

    @property
    def cpu_ms(self) -> float:
        """Return the scheduler's milliseconds for each pod."""
        return self.scheduler_cpu_s / self.pods * 1000


def pod(name: str, claim: JsonObject) -> JsonObject:
    """Return a pod with one claim, named as an entry of `spec.resourceClaims` does."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            # So that a pod on a node without a kubelet is gone when it is deleted.
            "terminationGracePeriodSeconds": 0,
            "resourceClaims": [{"name": "gpu", **claim}],
            "containers": [
                {"name": "app", "image": PAUSE, "resources": {"claims": [{"name": "gpu"}]}}
            ],
        },
    }


def claim(name: str, spec: JsonObject, *, template: bool = False) -> JsonObject:
    """Return a claim with *spec*, or a template of it."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate" if template else "ResourceClaim",
        "metadata": {"name": name},
        "spec": {"spec": spec} if template else spec,
    }


@dataclass(slots=True)
class Bindings:
    """When each pod of the namespace was seen to have a node."""

    seen_s: dict[str, float] = field(default_factory=dict)
    changed: threading.Condition = field(default_factory=threading.Condition)

    def wait(self, count: int, timeout_s: float) -> Sequence[float]:
        """Return the times of *count* bindings in order."""
        with self.changed:
            done = self.changed.wait_for(lambda: len(self.seen_s) >= count, timeout_s)
        assert done, f"{len(self.seen_s)} of {count} pods were bound in {timeout_s:.0f} s"
        return sorted(self.seen_s.values())

    def note(self, change: Change[str]) -> None:
        """Take one change of the pods that have a node."""
        with self.changed:
            self.seen_s.setdefault(change.key.name, time.monotonic())
            self.changed.notify_all()


@contextmanager
def watched_bindings(client: Client) -> Iterator[Bindings]:
    """Watch the namespace's pods for the block."""
    bindings = Bindings()
    reflector = Reflector(
        client,
        paths.pods(NAMESPACE),
        params={"fieldSelector": "spec.nodeName!="},
        decode=lambda body: str(body["spec"]["nodeName"]),
        on_change=bindings.note,
    )
    reflector.start()
    try:
        assert reflector.wait_synced(DEADLINE_S)
        yield bindings
    finally:
        reflector.stop()
