"""Finds claims that nobody will ever ask the plugin to unprepare.

Kubelet unprepares what is in its own memory. A claim that was deleted while kubelet's state was
lost, or a node that came back after a non-graceful shutdown, leaves entries here that would hold
their share for ever. The API decides: a claim that is not there under this UID, or is no longer
given devices of this node, is released once it has been so for longer than kubelet's own loop of
60 seconds, and only while no pod of this node refers to it. An API that does not answer decides
nothing. What a pod uses that it was prepared for is not even asked about: at rest that is all.
"""

import time
from collections.abc import Callable, Iterable, Mapping

import structlog
from structlog.contextvars import bound_contextvars

from dra.claims import reserved_pods
from dra.pods import PodUse
from dra.record import PreparedClaim
from gpu import names
from gpu.refusal import RefusedError
from kube import paths
from kube.client import Client
from kube.errors import KubeError, NotFoundError
from kube.views import ClaimView

GRACE_S = 120.0

log = structlog.get_logger(__name__)


class Sweep:
    """Looks at every prepared claim; call `run` now and then."""

    def __init__(
        self,
        *,
        client: Client,
        claims: Callable[[], Mapping[str, PreparedClaim]],
        pods: Callable[[], Iterable[PodUse] | None],
        release: Callable[[PreparedClaim], object],
        pool: str,
        grace_s: float = GRACE_S,
    ) -> None:
        """Prepare; *pods* returns `None` as long as the node's pods are not known."""
        self._client = client
        self._claims = claims
        self._pods = pods
        self._release = release
        self._pool = pool
        self._grace_s = grace_s
        self._gone_since: dict[str, float] = {}

    def run(self) -> None:
        """Release what has been gone for the whole grace period."""
        prepared = self._claims()
        for uid in self._gone_since.keys() - prepared.keys():
            del self._gone_since[uid]
        for uid, claim in prepared.items():
            if self._is_used(claim) or not self._is_gone(claim):
                self._gone_since.pop(uid, None)
                continue
            now = time.monotonic()
            if now - self._gone_since.setdefault(uid, now) >= self._grace_s:
                self._release_one(claim)

    def _release_one(self, claim: PreparedClaim) -> None:
        name = f"{claim.namespace}/{claim.name}"
        with bound_contextvars(claim_uid=claim.uid, claim=name, pod_uids=claim.pod_uids):
            try:
                self._release(claim)
            except RefusedError as error:
                log.warning("sweep refused", reason=str(error))
                return
            log.info("claim swept")
            del self._gone_since[claim.uid]

    def _is_used(self, claim: PreparedClaim) -> bool:
        return any(pod.uid in claim.pod_uids and _refers(pod, claim) for pod in self._pods() or ())

    def _is_gone(self, claim: PreparedClaim) -> bool:
        """Tell whether the API knows *claim* no more; doubt counts as no."""
        path = paths.resource_claims(claim.namespace, claim.name)
        of_another: frozenset[str] = frozenset()
        try:
            found = ClaimView.model_validate_json(self._client.get(path))
            if found.metadata.uid == claim.uid and self._is_ours(found):
                return False
            if found.metadata.uid != claim.uid:
                of_another = reserved_pods(found)
        except NotFoundError:
            pass
        except (KubeError, ValueError) as error:
            log.warning("claim not looked up", claim_uid=claim.uid, reason=str(error))
            return False
        pods = self._pods()
        return pods is not None and not any(
            # Pods refer by name: those of the claim that has the name now do not count.
            pod.uid not in of_another and _refers(pod, claim)
            for pod in pods
        )

    def _is_ours(self, claim: ClaimView) -> bool:
        allocation = claim.status.allocation
        results = allocation.devices.results if allocation else ()
        return any(each.driver == names.DRIVER and each.pool == self._pool for each in results)


def _refers(pod: PodUse, claim: PreparedClaim) -> bool:
    return pod.namespace == claim.namespace and any(
        claim.name in container.claims for container in pod.containers
    )
