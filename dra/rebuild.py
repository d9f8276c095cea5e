"""Finds the claims that a damaged state has lost, so that kubelet need not know of the damage.

Kubelet does not call prepare again for containers that run, so a state that simply began anew
would forget them and give away what they hold. Two sources say what was prepared: the claims that
the API server has allocated here to pods of this node, and the CDI specs on the node; see
`dra.reconstruction`. Nothing is prepared until both were read (`dra.prepare`), and nothing that
seems to belong to no claim is removed.

A claim with neither a spec nor room beside the others was not prepared: it waits for somebody who
was deleted by force, and prepare decides about it. Claims that were released in the meantime have
left a tombstone and stay away. A rebuild that is interrupted anywhere is done again from its start.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

import structlog
from pydantic import ValidationError

from cdi.errors import CdiError
from cdi.store import SpecStore
from dra import overlap
from dra.claims import reserved_pods
from dra.contents import RebuildMark
from dra.journal import DamagedError
from dra.node import NodeState, NodeView
from dra.plan import Rules
from dra.pods import PodUse
from dra.reconstruction import Reconstruction, is_allocated
from dra.record import PreparedClaim
from dra.state import StateError, StateStore
from gpu.refusal import Refusal, RefusedError
from kube import paths
from kube.client import Client
from kube.errors import KubeError
from kube.events import EventRecorder, Regarding
from kube.views import ClaimView, ObjectView

PACE_S: Final = 5.0
"""How long to wait before the next try."""

_PAGE: Final = 200

log = structlog.get_logger(__name__)


class _WaitingError(Exception):
    """What the rebuild waits for, as the rest of a sentence that begins with it."""


class Rebuild:
    """Call `run` now and then; it returns at once when there is nothing to rebuild."""

    def __init__(  # noqa: PLR0913  # the sources of the truth, and whom to tell
        self,
        *,
        client: Client,
        events: EventRecorder,
        store: StateStore,
        specs: SpecStore,
        node: NodeState,
        pods: Callable[[], Iterable[PodUse] | None],
        rules: Rules,
        pool: str,
        shares_per_gpu: Callable[[NodeView], Mapping[str, int]],
        rebuilt: Callable[[], None],
    ) -> None:
        """Prepare; *pods* returns `None` as long as the node's pods are not known."""
        self._client = client
        self._events = events
        self._store = store
        self._specs = specs
        self._node = node
        self._pods = pods
        self._rules = rules
        self._pool = pool
        self._shares_per_gpu = shares_per_gpu
        self._rebuilt = rebuilt

    def run(self) -> None:
        """Rebuild a damaged state if everything that it takes is there."""
        if self._store.rebuild_mark() is None:
            return
        # Another instance may have done it.
        self._store.latest()
        mark = self._store.rebuild_mark()
        if mark is None:
            return
        try:
            self._rebuild(mark)
            if self._store.end_rebuild():
                self._tell()
                self._rebuilt()
        except _WaitingError as error:
            self._wait(str(error))
        except (KubeError, ValueError, LookupError, RecursionError) as error:
            self._wait(f"waits for the API server: {error}")
        except (StateError, DamagedError, CdiError, OSError) as error:
            self._wait(f"waits for the disk: {error}")

    def _wait(self, problem: str) -> None:
        if problem != self._store.rebuild_problem():
            log.warning("state not rebuilt yet", reason=problem)
        self._store.note_rebuild(problem)

    def _rebuild(self, mark: RebuildMark) -> None:
        if not self._node.is_known():
            message = f"waits for the GPUs: {self._node.problem()}"
            raise _WaitingError(message)
        pods = self._pods()
        if pods is None:
            raise _WaitingError("waits for the API server to tell the pods of this node")
        view = self._node.current()
        source = Reconstruction(view=view, rules=self._rules, pool=self._pool, boot_id=mark.boot_id)
        on_disk = self._specs.claim_uids()
        claims = self._claims({pod.uid for pod in pods}, on_disk)
        # What was certainly prepared comes first: the others have to fit beside it.
        for uid in sorted(on_disk):
            self._take(source, uid, claims.pop(uid, None))
        for uid, claim in claims.items():
            self._take(source, uid, claim)

    def _claims(self, pods: set[str], on_disk: set[str]) -> dict[str, ClaimView]:
        """Return the claims that may be prepared, by UID, in the order of the server."""
        found: dict[str, ClaimView] = {}
        for claim in self._listed():
            uid = claim.metadata.uid
            here = is_allocated(claim, self._pool) and reserved_pods(claim) & pods
            if here or uid in on_disk:
                found[uid] = claim
        return found

    def _listed(self) -> Iterator[ClaimView]:
        params = {"limit": str(_PAGE)}
        while True:
            page = json.loads(self._client.get(paths.resource_claims(), params))
            for item in page.get("items") or []:
                try:
                    yield ClaimView.model_validate(item)
                except ValidationError as error:
                    log.warning("claim not read", reason=str(error))
            if not (token := page["metadata"].get("continue")):
                return
            params["continue"] = token

    def _take(self, source: Reconstruction, uid: str, claim: ClaimView | None) -> None:
        """Record the claim *uid* if it was prepared; one that cannot be stops no other."""
        content = self._content(uid)
        found = source.find(uid, claim, content)
        if found.refusal is not None and claim is not None:
            self._say(claim, found.refusal)
        record = found.record
        if record is None:
            log.warning("claim not recovered", claim_uid=uid)
            return
        with self._store.transaction() as transaction:
            known = uid in transaction.claims or transaction.released(uid) is not None
            if known or not transaction.rebuilding:
                return
            if content is None and not self._fits(record, transaction.claims.values(), source.view):
                return
            transaction.put(record)
        log.info(
            "claim recovered",
            claim_uid=uid,
            claim=f"{record.namespace}/{record.name}",
            source="spec" if found.from_spec else "claim",
            devices=[each.device for each in record.devices],
        )

    def _content(self, uid: str) -> bytes | None:
        """Return the spec of a claim, empty when it cannot be read, and `None` without one."""
        try:
            return self._specs.read(uid)
        except CdiError as error:
            log.warning("spec not read", claim_uid=uid, reason=str(error))
            return b""

    def _fits(self, record: PreparedClaim, others: Iterable[PreparedClaim], view: NodeView) -> bool:
        try:
            overlap.check(record, others, view.devices, self._shares_per_gpu(view))
        except RefusedError as error:
            log.info("claim was not prepared", claim_uid=record.uid, reason=str(error))
            return False
        return True

    def _say(self, claim: ClaimView, refusal: Refusal) -> None:
        metadata = claim.metadata
        log.warning("claim not planned", claim_uid=metadata.uid, reason=str(refusal))
        regarding = Regarding(
            api_version=f"resource.k8s.io/{paths.DRA_VERSION}",
            kind="ResourceClaim",
            name=metadata.name,
            uid=metadata.uid,
            namespace=metadata.namespace,
        )
        self._events.event(regarding, "Warning", refusal.code, str(refusal))

    def _tell(self) -> None:
        count = len(self._store.claims())
        log.warning("state rebuilt", claims=count)
        try:
            body = self._client.get(paths.nodes(self._pool))
            uid = ObjectView.model_validate_json(body).metadata.uid
        except (KubeError, ValueError) as error:
            log.warning("rebuild not told on the node", reason=str(error))
            return
        message = (
            f"the record of prepared claims could not be read and was rebuilt with {count} claims; "
            "the damaged files are kept beside it"
        )
        regarding = Regarding(api_version="v1", kind="Node", name=self._pool, uid=uid)
        self._events.event(regarding, "Warning", "CheckpointRebuilt", message)
