"""Whether the claims that a pod names can serve its containers.

HAMi-core counts for one container at a time, and two sets of limits in one container overwrite each
other. The node says so too, but only as an event, when the containers run already.

What is looked at are claims and templates that users wrote, as far as they are known: a claim that
is made after its pod, or a moment before it, is left to the node.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Protocol

from gpu.refusal import Refusal
from hami.containers import Container, ContainerKind, all_containers
from hami.quota import is_over
from hami.wording import shown
from kube.objects import JsonObject
from webhook.claimspec import CLASSES, is_limited, objects, own_configs


class ClaimLookup(Protocol):
    """What is known of one namespace."""

    @property
    def classes(self) -> frozenset[str]:
        """Return the DeviceClasses that give devices of ours."""

    def claim_spec(self, name: str) -> JsonObject | None:
        """Return the spec of a ResourceClaim."""

    def template_spec(self, name: str) -> JsonObject | None:
        """Return the spec of the claims of a ResourceClaimTemplate."""

    def users(self, claim: str) -> Collection[str]:
        """Return the names of the pods that have a ResourceClaim and have not ended."""


class ClusterObjects(Protocol):
    """Where `NamespaceLookup` gets it from."""

    def claims(self, namespace: str) -> tuple[JsonObject, ...]:
        """Return the ResourceClaims of a namespace."""

    def pods(self, namespace: str) -> tuple[JsonObject, ...]:
        """Return pods of a namespace, not necessarily all."""

    def template_spec(self, namespace: str, name: str) -> JsonObject | None:
        """Return the spec of the claims of a template."""


class NamespaceLookup:
    """The claims and pods of one namespace, each looked up only when asked for."""

    def __init__(
        self,
        objects: ClusterObjects,
        namespace: str,
        *,
        more_templates: Mapping[str, JsonObject] | None = None,
        classes: frozenset[str] = CLASSES,
    ) -> None:
        """Prepare; *more_templates* are specs of claims by template, there already or not."""
        self._objects = objects
        self.namespace = namespace
        self.classes = classes
        self.more_templates = more_templates or {}

    def claim_spec(self, name: str) -> JsonObject | None:
        """Return the spec of the ResourceClaim *name*."""
        claim = self._claim(name)
        return None if claim is None else claim.get("spec")

    def template_spec(self, name: str) -> JsonObject | None:
        """Return the spec of the claims of the template *name*."""
        if name in self.more_templates:
            return self.more_templates[name]
        return self._objects.template_spec(self.namespace, name)

    def users(self, claim: str) -> Collection[str]:
        """Return who has *claim*, by the pods that are known and by the claim itself."""
        pods = self._objects.pods(self.namespace)
        ended = {each["metadata"]["name"] for each in pods if is_over(each)}
        using = {each["metadata"]["name"] for each in pods if claim in named_claims(each).values()}
        status = (self._claim(claim) or {}).get("status") or {}
        reserved = {
            _text(each.get("name"))
            for _, each in objects(status, "reservedFor")
            if each.get("resource") == "pods"
        }
        return (using | reserved) - ended

    def _claim(self, name: str) -> JsonObject | None:
        found = self._objects.claims(self.namespace)
        return next((each for each in found if each["metadata"]["name"] == name), None)


def check_pod_claims(
    pod: JsonObject, lookup: ClaimLookup, *, sharing: Collection[str] = ()
) -> tuple[Refusal, ...]:
    """Return why the claims of *pod* cannot serve it.

    *sharing* are the containers that will get a claim with limits besides, by name.
    """
    limited = limited_claims(pod, lookup)
    if not limited:
        return ()
    uses = claim_uses(pod)
    found = [*_many_containers(limited, uses), *_many_pods(pod, limited, uses, lookup)]
    found += _many_claims(limited, uses, sharing)
    return tuple(found)


def limited_claims(pod: JsonObject, lookup: ClaimLookup) -> Mapping[str, str]:
    """Map the entries of *pod* for claims with limits to what tells these claims apart."""
    found: dict[str, str] = {}
    for entry, claim, template in _entries(pod):
        spec = _spec(claim, template, lookup)
        if spec is not None and is_limited(spec, classes=lookup.classes):
            # Of a template each entry gets a claim of its own.
            found[entry] = f"claim {claim}" if claim else f"entry {entry}"
    return found


def priorities(pod: JsonObject, lookup: ClaimLookup) -> Mapping[str, int]:
    """Map the entries of *pod* whose claims ask for a priority to that."""
    found: dict[str, int] = {}
    for entry, claim, template in _entries(pod):
        for _, config in own_configs(_spec(claim, template, lookup) or {}):
            parameters = config["opaque"].get("parameters")
            said = parameters.get("priority") if isinstance(parameters, dict) else None
            if isinstance(said, int):
                found[entry] = said
    return found


def _spec(claim: str, template: str, lookup: ClaimLookup) -> JsonObject | None:
    return lookup.claim_spec(claim) if claim else lookup.template_spec(template)


def claim_uses(pod: JsonObject) -> Sequence[tuple[Container, frozenset[str]]]:
    """Return the containers of *pod* in their order of start, with the entries that they use."""
    return [(each, frozenset(_used(each.raw))) for each in all_containers(pod)]


def named_claims(pod: JsonObject) -> Mapping[str, str]:
    """Map the entries of *pod* that name a ResourceClaim to its name."""
    return {entry: claim for entry, claim, _ in _entries(pod) if claim}


def _entries(pod: JsonObject) -> Iterator[tuple[str, str, str]]:
    spec = pod.get("spec")
    for _, entry in objects(spec if isinstance(spec, dict) else {}, "resourceClaims"):
        name, claim, template = (
            _text(entry.get(key))
            for key in ("name", "resourceClaimName", "resourceClaimTemplateName")
        )
        if claim or template:
            yield name, claim, template


def _used(container: JsonObject) -> Iterator[str]:
    resources = container.get("resources")
    for _, each in objects(resources if isinstance(resources, dict) else {}, "claims"):
        yield _text(each.get("name"))


def _many_containers(
    limited: Mapping[str, str], uses: Sequence[tuple[Container, frozenset[str]]]
) -> Iterator[Refusal]:
    for claim in dict.fromkeys(limited.values()):
        entries = {entry for entry, of in limited.items() if of == claim}
        users = [container for container, used in uses if used & entries]
        if _at_a_time(users) > 1:
            names = ", ".join(shown(each.name) for each in users)
            yield Refusal(
                code="ShareUsedByManyContainers",
                field="spec.resourceClaims",
                value=shown(", ".join(sorted(entries))),
                limit=f"its limit holds for one container at a time, used by {names}",
                remedy="give every container a claim of its own",
            )


def _at_a_time(containers: Sequence[Container]) -> int:
    """Return how many of *containers*, in their order of start, run together at most."""
    running = most = 0
    for container in containers:
        most = max(most, running + 1)
        running += container.kind is not ContainerKind.INIT
    return most


def _many_pods(
    pod: JsonObject,
    limited: Mapping[str, str],
    uses: Sequence[tuple[Container, frozenset[str]]],
    lookup: ClaimLookup,
) -> Iterator[Refusal]:
    used = {entry for _, entries in uses for entry in entries}
    metadata = pod.get("metadata")
    own_name = _text(metadata.get("name")) if isinstance(metadata, dict) else ""
    claims = {c for entry, c in named_claims(pod).items() if entry in used and entry in limited}
    for claim in sorted(claims):
        others = set(lookup.users(claim)) - {own_name}
        if others:
            yield Refusal(
                code="ShareUsedByManyPods",
                field="spec.resourceClaims",
                value=shown(claim),
                limit=f"its limit holds for one container, and pod {min(others)} has it",
                remedy="name a ResourceClaimTemplate, which gives every pod a claim of its own",
            )


def _many_claims(
    limited: Mapping[str, str],
    uses: Sequence[tuple[Container, frozenset[str]]],
    sharing: Collection[str],
) -> Iterator[Refusal]:
    for container, used in uses:
        entries = sorted(used & limited.keys())
        several = len({limited[entry] for entry in entries}) + (container.name in sharing)
        if entries and several > 1:
            yield Refusal(
                code="ManySharesInContainer",
                field=f"{container.path}.resources",
                value=shown(", ".join(entries)),
                limit="limits of several claims overwrite each other in one container",
                remedy="put the requests into one claim",
            )


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
