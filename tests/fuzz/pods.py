"""Pods of the node, as the watch shows them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from pydantic import ValidationError

from dra.pods import PodUse, many_claims, many_users, read_pod
from kube.objects import JsonObject
from tests.dra.builders import a_limited_record
from tests.fuzz.mutation import spoiled
from tests.fuzz.running import expect

_CLAIM: Final = a_limited_record(1)


def _container(name: str, *entries: str, **more: Any) -> JsonObject:
    return {"name": name, "resources": {"claims": [{"name": each} for each in entries]}, **more}


_PODS: Final[tuple[JsonObject, ...]] = tuple(
    {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "pod", "namespace": "team-a", "uid": "pod-uid"},
        "spec": {
            "nodeName": "node-1",
            "initContainers": [
                _container("first", "a"),
                _container("side", restartPolicy="Always"),
            ],
            "containers": [_container("main", "a", "b"), _container("other", "b", image="x")],
            "resourceClaims": [
                {"name": "a", "resourceClaimName": _CLAIM.name},
                {"name": "b", "resourceClaimTemplateName": "template"},
            ],
        },
        "status": {
            "phase": phase,
            "resourceClaimStatuses": [{"name": "b", "resourceClaimName": "pod-b-x7"}],
        },
    }
    for phase in ("Running", "Pending", "Succeeded")
)


@dataclass(frozen=True, slots=True)
class Pods:
    """Pods near valid ones."""

    read: Callable[[JsonObject], PodUse] = field(default=read_pod)
    name: str = "pods"
    weight: int = 16

    def make(self, rng: Random) -> Any:
        """Return a pod."""
        return spoiled(rng, rng.choice(_PODS), donor=rng.choice(_PODS))

    def check(self, sample: Any) -> bool:
        """Find the claims that the containers name, or say that it is no pod."""
        try:
            found = self.read(sample)
        except ValidationError:
            # The store of the watch drops such an object, and says so.
            return False
        expect(self.read(sample) == found, "another answer the second time")
        used = {(each.name, each.claims) for each in found.containers}
        expect(used == _used(sample), f"other claims: {used}")
        many_claims(found, frozenset({_CLAIM.name, "pod-b-x7"}))
        many_users([found], _CLAIM)
        return True

    def close(self) -> None:
        """Do nothing: nothing is held."""


def _used(pod: Any) -> set[tuple[str, frozenset[str]]]:
    spec, status = pod.get("spec", {}), pod.get("status", {})
    if status.get("phase") in {"Succeeded", "Failed"}:
        return set()
    names: dict[str, Any] = {}
    for entry in (*spec.get("resourceClaims", ()), *status.get("resourceClaimStatuses", ())):
        names[entry["name"]] = entry.get("resourceClaimName")
    used = set()
    for container in (*spec.get("initContainers", ()), *spec.get("containers", ())):
        entries = [each["name"] for each in container.get("resources", {}).get("claims", ())]
        claims = frozenset(names[each] for each in entries if names.get(each) is not None)
        if claims:
            used.add((container["name"], claims))
    return used
