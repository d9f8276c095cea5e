"""What a claim's record was, as far as the API server and the claim's CDI spec tell.

A claim is planned as a prepare would plan it, but with the library that its spec names, for which
running containers have been started. Where the spec is not about the same devices, or the claim
cannot be planned, the spec counts.
"""

from dataclasses import dataclass, replace

import structlog

from cdi.errors import CdiError, SpecError
from cdi.recovery import RecoveredSpec, recover
from dra.claims import read_allocation
from dra.node import NodeView
from dra.plan import Rules, plan
from dra.record import PreparedClaim
from dra.recovered import NOBODY, from_spec
from dra.render import cdi_name
from gpu import names
from gpu.refusal import Refusal, RefusedError
from kube.views import ClaimView

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What is known of one claim."""

    record: PreparedClaim | None
    from_spec: bool = False
    refusal: Refusal | None = None
    """Why a prepare of the claim would be refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconstruction:
    """Finds records for one view of the node; *boot_id* is that of the boot they were made in."""

    view: NodeView
    rules: Rules
    pool: str
    boot_id: str

    def find(self, uid: str, claim: ClaimView | None, content: bytes | None) -> Found:
        """Return what *claim*, as the server has it, and the *content* of its spec tell."""
        spec = _read(uid, content)
        planned, refusal = None, None
        if claim is not None and is_allocated(claim, self.pool):
            try:
                planned = self._plan(claim, spec)
            except RefusedError as error:
                refusal = error.refusal
        if spec is None or (planned is not None and _names(planned) == set(spec.devices)):
            return Found(record=planned, refusal=refusal)
        metadata = claim.metadata if claim is not None else None
        namespace, name = (metadata.namespace, metadata.name) if metadata else (NOBODY, uid)
        record = from_spec(
            (uid, namespace, name),
            spec,
            self.view.devices,
            pool=self.pool,
            boot_id=self.boot_id,
        )
        return Found(record=record, from_spec=True, refusal=refusal)

    def _plan(self, claim: ClaimView, spec: RecoveredSpec | None) -> PreparedClaim:
        allocation = read_allocation(claim, pool=self.pool)
        return plan(allocation, self._view_for(spec), self.rules, boot_id=self.boot_id)

    def _view_for(self, spec: RecoveredSpec | None) -> NodeView:
        if spec is None or spec.library_sha256 is None:
            return self.view
        try:
            return replace(self.view, library=self.view.renderer.library(spec.library_sha256))
        except (RefusedError, CdiError, OSError) as error:
            log.warning("library of a spec not kept", reason=str(error))
            return self.view


def is_allocated(claim: ClaimView, pool: str) -> bool:
    """Tell whether *claim* has a device of ours in *pool*."""
    allocation = claim.status.allocation
    results = allocation.devices.results if allocation else ()
    return any(each.driver == names.DRIVER and each.pool == pool for each in results)


def _read(uid: str, content: bytes | None) -> RecoveredSpec | None:
    if content is None:
        return None
    try:
        return recover(uid, content)
    except SpecError as error:
        log.warning("spec not understood", claim_uid=uid, reason=str(error))
        return None


def _names(record: PreparedClaim) -> set[str]:
    return {cdi_name(record, each).removeprefix(f"{record.uid}-") for each in record.devices}
