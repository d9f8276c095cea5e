"""Carries a plan out on the API server and says what the server made of it.

Plans are made from a list read just before (a list without `resourceVersion` is consistent), so
own writes that the watch has not shown yet cannot lead to duplicates, and a write whose answer
was lost is seen. Deletions name the UID and the resourceVersion that were looked at.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import structlog

from cdi.faults import FaultPoint, reach
from dra.slice_diff import fingerprint, lost_fields, with_times
from dra.slice_plan import Plan
from gpu.names import DRIVER
from kube.client import Client
from kube.errors import NotFoundError
from kube.objects import JsonObject
from kube.paths import resource_slices

log = structlog.get_logger(__name__)


def slices_of_node(node_name: str) -> Mapping[str, str]:
    """Return the parameters that select all drivers' slices of the node."""
    return {"fieldSelector": f"spec.nodeName={node_name}"}


def own_slices(node_name: str) -> Mapping[str, str]:
    """Return the parameters that select this driver's slices of the node."""
    return {"fieldSelector": f"spec.driver={DRIVER},spec.nodeName={node_name}"}


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What is on the server after a plan."""

    slices: list[JsonObject]
    lost: tuple[str, ...] = ()
    """Paths that were sent and not kept."""
    rewritten: dict[str, str] = field(default_factory=dict)
    """Fingerprints of sent specs to those of the kept ones, where these differ."""


class SliceWriter:
    """Reads and writes the slices of one node; not for several threads at once."""

    def __init__(
        self, client: Client, *, node_name: str, observe: Callable[[str], None] | None = None
    ) -> None:
        """Prepare; *observe* is told `create`, `update` or `delete` after each write."""
        self._client = client
        self._params = own_slices(node_name)
        self._observe = observe or (lambda _verb: None)

    def read(self) -> list[JsonObject]:
        """Return the node's slices as they are on the server now."""
        answer = json.loads(self._client.get(resource_slices(), self._params))
        return list(answer.get("items") or ())

    def carry_out(
        self, plan: Plan, existing: list[JsonObject], *, stopping: Callable[[], bool]
    ) -> Outcome | None:
        """Do the writes of *plan*; `None` when *stopping* became true between two of them.

        Raises `ConflictError` when the slices are no longer the *existing* ones.
        """
        after = {item["metadata"]["name"]: item for item in existing}
        outcome = Outcome(slices=[])
        for item in plan.deletes:
            if stopping():
                return None
            self._delete(item)
            after.pop(item["metadata"]["name"], None)
        for item in (*plan.updates, *plan.creates):
            if stopping():
                return None
            kept = self._write(item)
            after[kept["metadata"]["name"]] = kept
            _compare(item["spec"], kept["spec"], outcome)
        outcome.slices = list(after.values())
        return outcome

    def _delete(self, item: JsonObject) -> None:
        metadata = item["metadata"]
        try:
            self._client.delete(
                resource_slices(metadata["name"]),
                uid=metadata["uid"],
                resource_version=metadata["resourceVersion"],
            )
        except NotFoundError:
            return
        reach(FaultPoint.SLICE_DELETED)
        self._observe("delete")
        log.info("slice deleted", slice=metadata["name"])

    def _write(self, item: JsonObject) -> JsonObject:
        name = item["metadata"].get("name")
        if name is None:
            verb, answer = "create", self._client.create(resource_slices(), item)
        else:
            verb, answer = "update", self._client.replace(resource_slices(name), item)
        reach(FaultPoint.SLICE_WRITTEN)
        kept: JsonObject = json.loads(answer)
        self._observe(verb)
        log.info(
            "slice written",
            verb=verb,
            slice=kept["metadata"]["name"],
            generation=kept["spec"]["pool"].get("generation"),
            devices=len(kept["spec"].get("devices") or ()),
        )
        return kept


def _compare(sent: JsonObject, kept: JsonObject, outcome: Outcome) -> None:
    outcome.lost = tuple(dict.fromkeys((*outcome.lost, *lost_fields(sent, kept))))
    # Not only losses: an admission webhook may add something, for ever.
    if fingerprint(with_times(sent, kept)) != fingerprint(kept):
        outcome.rewritten[fingerprint(sent)] = fingerprint(kept)
