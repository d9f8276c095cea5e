"""Prepare and unprepare of one claim.

Prepare reads the claim before it takes any lock, decides, records the decision durably and only
then makes region and CDI spec, both of which are functions of the record: whatever a crash
interrupts, doing it again repairs. Unprepare undoes in the reverse order and forgets last; it
never asks the API server, because the claim may be gone.

A call that kubelet has given up can still be running when kubelet has already unprepared the
claim. It must not bring the claim back: an unprepare leaves a tombstone that refuses calls that
began before it, and later calls that still see the claim in the version that was released.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

import structlog
from structlog.contextvars import bind_contextvars

from cdi.errors import CdiError
from cdi.faults import FaultPoint, reach
from cdi.regionstore import RegionStore
from cdi.store import SpecStore
from dra import overlap
from dra.allocation import Allocation
from dra.claims import ClaimReference, fetch, read_allocation
from dra.journal import DamagedError
from dra.locks import ClaimLocks
from dra.node import NodeState, NodeView
from dra.plan import Rules, plan
from dra.record import PreparedClaim
from dra.state import StateError, StateStore
from dra.transaction import TOMBSTONE_S, Transaction
from gpu.refusal import Refusal, RefusedError
from kube.client import Client

log = structlog.get_logger(__name__)


class Preparer:
    """Prepares and unprepares claims of one node; safe to call from several threads."""

    def __init__(  # noqa: PLR0913  # the one place where all parts of a prepare meet
        self,
        *,
        client: Client,
        store: StateStore,
        specs: SpecStore,
        regions: RegionStore,
        node: NodeState,
        rules: Rules,
        pool: str,
        boot_id: str,
        shares_per_gpu: Callable[[NodeView], Mapping[str, int]],
        refuse_pods: Callable[[Allocation], None],
    ) -> None:
        self._client = client
        self._store = store
        self._specs = specs
        self._regions = regions
        self._node = node
        self._rules = rules
        self._pool = pool
        self._boot_id = boot_id
        self._shares_per_gpu = shares_per_gpu
        self._refuse_pods = refuse_pods
        self._locks = ClaimLocks()
        self._released_at: dict[str, float] = {}
        self._released_mutex = threading.Lock()

    def prepare(self, reference: ClaimReference, *, wanted: Callable[[], bool]) -> PreparedClaim:
        """Prepare the claim and return its record; raise `RefusedError` with the reason.

        *wanted* tells whether kubelet still waits for the answer.
        """
        began = time.monotonic()
        if self._store.rebuild_problem() is not None:
            # Another instance may have done it.
            self._store.latest()
            _refuse_rebuilding(reference.uid, self._store.rebuild_problem())
        claim = fetch(self._client, reference)
        allocation = read_allocation(claim, pool=self._pool)
        bind_contextvars(pod_uids=sorted(allocation.pod_uids))
        view = self._node.current()
        with self._locks.hold(allocation.uid):
            if not wanted():
                raise _call_refused("CallEnded", allocation, "kubelet no longer waits for it")
            record, previous = self._record(allocation, view, began)
            try:
                self._make(record, view)
            except RefusedError:
                if previous is None:
                    self._withdraw(record)
                raise
        reach(FaultPoint.PREPARE_ANSWERED)
        return record

    def unprepare(self, claim_uid: str) -> PreparedClaim | None:
        """Undo the claim and return its record; `None` when it was not prepared."""
        with self._locks.hold(claim_uid):
            self._bury(claim_uid)
            with _state_failures(claim_uid), self._store.transaction() as transaction:
                record = transaction.claims.get(claim_uid)
                # Not yet known: the tombstone keeps a rebuild from bringing it back.
                buried = record is not None or transaction.rebuilding
            bind_contextvars(pod_uids=list(record.pod_uids) if record else [])
            reach(FaultPoint.UNPREPARE_BEFORE_UNDO)
            self._undo(claim_uid)
            if buried:
                with _state_failures(claim_uid), self._store.transaction() as transaction:
                    transaction.release(claim_uid, now_s=int(time.time()))
        reach(FaultPoint.UNPREPARE_ANSWERED)
        return record

    def restore(self) -> None:
        """Make region and spec of every prepared claim again, and remove those of no claim.

        A spec that cannot be made now (its device is gone) is left as it is. The state is read
        anew for each, because a second instance may prepare and unprepare at the same time.
        """
        view = self._node.current()
        for uid in self._store.current():
            with self._one(uid):
                record = self._store.current().get(uid)
                if record is not None:
                    self._restore_one(record, view)
        for uid in self._specs.claim_uids() | self._regions.owners():
            with self._one(uid):
                if self._belongs_to_none(uid):
                    self._undo(uid)
                    log.info("leftover of no prepared claim removed", claim_uid=uid)

    def _belongs_to_none(self, claim_uid: str) -> bool:
        with self._store.transaction() as transaction:
            return claim_uid not in transaction.claims and not transaction.rebuilding

    @contextmanager
    def _one(self, claim_uid: str) -> Iterator[None]:
        """Hold the lock of one claim of many; what fails is logged and waits for next time."""
        try:
            with self._locks.hold(claim_uid):
                yield
        except (RefusedError, CdiError, StateError, OSError) as error:
            log.warning("claim not restored", claim_uid=claim_uid, reason=str(error))

    def _restore_one(self, record: PreparedClaim, view: NodeView) -> None:
        if record.devices and self._specs.read(record.uid) != view.renderer.render(record):
            self._make(record, view)
            log.info("claim restored", claim_uid=record.uid, claim=record.name)
        elif record.options is not None:
            self._regions.ensure(record.uid)

    def _record(
        self, allocation: Allocation, view: NodeView, began: float
    ) -> tuple[PreparedClaim, PreparedClaim | None]:
        """Return the durable record of *allocation* and the one that was there before."""
        uid = allocation.uid
        known = self._store.claims().get(uid)
        wanted = None
        if known is None or known.allocation != allocation.digest:
            wanted = plan(allocation, view, self._rules, boot_id=self._boot_id)
            if wanted.limits:
                self._refuse_pods(allocation)
        reach(FaultPoint.PREPARE_BEFORE_RECORD)
        with _state_failures(uid), self._store.transaction() as transaction:
            _refuse_rebuilding(uid, self._store.rebuild_problem())
            self._refuse_released(transaction, allocation, began)
            known = transaction.claims.get(uid)
            if known is not None and known.allocation == allocation.digest:
                return self._renew(transaction, known, allocation), known
            # Another instance may have released it since it was looked up.
            wanted = wanted or plan(allocation, view, self._rules, boot_id=self._boot_id)
            others = transaction.claims.values()
            overlap.check(wanted, others, view.devices, self._shares_per_gpu(view))
            self._begin_anew(known, wanted)
            transaction.put(wanted)
        return wanted, known

    def _renew(
        self, transaction: Transaction, known: PreparedClaim, allocation: Allocation
    ) -> PreparedClaim:
        renewed = replace(
            known,
            resource_version=allocation.resource_version,
            boot_id=self._boot_id,
            pod_uids=tuple(sorted(allocation.pod_uids)),
        )
        if renewed != known:
            self._begin_anew(known, renewed)
            transaction.put(renewed)
        return renewed

    def _begin_anew(self, known: PreparedClaim | None, record: PreparedClaim) -> None:
        """Undo what *known* made if *record* must not use it, before nobody knows of it any more.

        A region keeps the limits that it was first used with, and the usage of processes that a
        reboot ended.
        """
        new = (record.allocation, record.boot_id)
        if known is not None and (known.allocation, known.boot_id) != new:
            self._undo(record.uid)

    def _refuse_released(
        self, transaction: Transaction, allocation: Allocation, began: float
    ) -> None:
        with self._released_mutex:
            overtaken = self._released_at.get(allocation.uid, 0.0) >= began
        tombstone = transaction.released(allocation.uid)
        unchanged = (
            tombstone is not None
            and tombstone.resource_version == allocation.resource_version
            and tombstone.at_s > time.time() - TOMBSTONE_S
        )
        if overtaken or unchanged:
            raise _call_refused("ClaimWasReleased", allocation, "it was unprepared meanwhile")

    def _bury(self, claim_uid: str) -> None:
        now = time.monotonic()
        with self._released_mutex:
            old = [uid for uid, at in self._released_at.items() if at < now - TOMBSTONE_S]
            for uid in old:
                del self._released_at[uid]
            self._released_at[claim_uid] = now

    def _make(self, record: PreparedClaim, view: NodeView) -> None:
        try:
            if record.options is not None:
                self._regions.ensure(record.uid)
            if record.devices:
                # A spec without devices would be invalid, and nobody would name it.
                self._specs.write(record.uid, view.renderer.render(record))
        except (CdiError, OSError) as error:
            raise _not_writable(record.uid, error) from error

    def _undo(self, claim_uid: str) -> None:
        try:
            self._specs.delete(claim_uid)
            self._regions.remove(claim_uid)
        except (CdiError, OSError) as error:
            raise _not_writable(claim_uid, error) from error

    def _withdraw(self, record: PreparedClaim) -> None:
        """Take a record back whose effects failed; what cannot be undone the sweep will."""
        try:
            self._undo(record.uid)
            with self._store.transaction() as transaction:
                transaction.withdraw(record)
        except (RefusedError, StateError, OSError) as error:
            log.warning("claim not withdrawn", claim_uid=record.uid, reason=str(error))


@contextmanager
def _state_failures(claim_uid: str) -> Iterator[None]:
    """Turn a state that cannot be read or written into a refusal."""
    try:
        yield
    except (StateError, DamagedError, OSError) as error:
        raise RefusedError(
            Refusal(
                code="StateNotWritable",
                field="claim.uid",
                value=claim_uid,
                limit=str(error),
                remedy="make room or repair the disk that holds the plugin's directory",
            )
        ) from error


def _refuse_rebuilding(claim_uid: str, problem: str | None) -> None:
    """Refuse while claims may be missing from the state: what is free cannot be told."""
    if problem is not None:
        raise RefusedError(
            Refusal(
                code="StateRebuilding",
                field="claim.uid",
                value=claim_uid,
                limit=f"the record of prepared claims was damaged; its rebuild {problem}",
                remedy="kubelet tries again",
            )
        )


def _not_writable(claim_uid: str, error: Exception) -> RefusedError:
    return RefusedError(
        Refusal(
            code="SpecNotWritable",
            field="claim.uid",
            value=claim_uid,
            limit=str(error),
            remedy="make the CDI directory and the plugin's directory writable",
        )
    )


def _call_refused(code: str, allocation: Allocation, limit: str) -> RefusedError:
    value = f"{allocation.namespace}/{allocation.name} uid {allocation.uid}"
    return RefusedError(Refusal(code=code, field="claim", value=value, limit=limit))
