"""How long a kubelet waits; the values are those of Kubernetes 1.36 unless told otherwise.

Polling stands in for fsnotify and for kubelet's 1 s reconciler, so registration is quicker here
than on a node. Pod syncs are retried sooner too: kubelet begins at about 10 s. So is the node's
status with what device plugins offer: kubelet writes it every 10 s.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Deadlines, delays and periods."""

    poll_s: float = 0.05
    dial_timeout_s: float = 10.0
    get_info_timeout_s: float = 1.0
    notify_timeout_s: float = 5.0
    registration_backoff_s: float = 0.5
    registration_backoff_max_s: float = 122.0
    call_timeout_s: float = 45.0
    wipe_after_s: float = 30.0
    wipe_backoff_s: float = 1.0
    wipe_backoff_max_s: float = 300.0
    reconcile_s: float = 60.0
    sync_backoff_s: float = 0.5
    sync_backoff_max_s: float = 10.0
    health_retry_s: float = 5.0
    health_timeout_s: float = 30.0
    """For devices whose plugin names no timeout of its own."""
    node_status_s: float = 0.2
    endpoint_grace_s: float = 300.0
    """How long a resource keeps its capacity after its device plugin was lost."""
    pre_start_timeout_s: float = 30.0


def backoff(first_s: float, limit_s: float, failures: int) -> float:
    """Return the wait after *failures* in a row, doubling from *first_s* up to *limit_s*."""
    return float(min(limit_s, first_s * 2 ** min(failures - 1, 30)))
