"""The translation of a pod's GPU limits into claims (HAMi's requests on a DRA cluster).

Only the pod is written: it names claim templates by the hash of their content and carries, in an
annotation, what that content is, from which the templates are made later. So a dry run, a refusal
by another webhook or a second call leaves nothing behind. All containers are read before the
first operation is made.

A resource that stayed in the limits would keep the pod pending for ever, since nobody offers it
on such a cluster; so all of our names go, also where they ask for nothing.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from gpu.refusal import Refusal, RefusedError
from hami.containers import all_containers
from hami.requests import ContainerRequest, Invalid, Valid
from kube.objects import JsonObject
from webhook import requestannotation
from webhook.devicewish import Asked, TranslationSettings, wished
from webhook.facts import ClusterFacts
from webhook.patching import Patch
from webhook.podclaims import PodClaim, entry_name, grouped, held_too_long
from webhook.rendering import claim_spec
from webhook.requestannotation import ANNOTATION, LABEL, LABEL_VALUE
from webhook.sharerequest import ShareRequest
from webhook.templatecontent import template_name
from webhook.typewords import surprises

__all__ = ["Translation", "TranslationSettings", "translate"]

_VISIBLE_DEVICES: Final = "NVIDIA_VISIBLE_DEVICES"


@dataclass(frozen=True, slots=True, kw_only=True)
class Translation:
    """What becomes of a pod."""

    patch: tuple[JsonObject, ...]
    templates: Mapping[str, JsonObject] = field(default_factory=dict)
    """The specs of the claims, by the name of their template."""
    warnings: tuple[Refusal, ...] = ()
    """Beside those of reading the pod."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    """A claim of the pod with its name and content."""

    claim: PodClaim
    name: str
    template: str
    spec: JsonObject
    request: ShareRequest


def translate(
    pod: JsonObject, valid: Valid, facts: ClusterFacts, settings: TranslationSettings
) -> Translation | Invalid:
    """Return how *pod* asks for the same through claims; *valid* is what it was read as."""
    claims = grouped(valid.requests)
    reasons: list[Refusal] = []
    warnings: list[Refusal] = []
    if claims:
        warnings += surprises(valid.preferences, facts.models)
    warnings += held_too_long(claims)
    wishes: list[ShareRequest] = []
    for claim in claims:
        asked = Asked(
            device=claim.device,
            preferences=valid.preferences,
            facts=facts,
            settings=settings,
            path=claim.owner.path,
        )
        try:
            request, noted = wished(asked)
        except RefusedError as error:
            reasons.append(error.refusal)
        else:
            wishes.append(request)
            warnings += noted
    try:
        before = requestannotation.of_pod(pod)
    except RefusedError as error:
        reasons.append(error.refusal)
        before = {}
    if reasons:
        return Invalid(reasons=_once(reasons), warnings=_once(warnings))
    entries = tuple(_named(pod, claims, wishes, before))
    return Translation(
        patch=_patch(pod, valid.requests, entries, before, settings.keys),
        templates={entry.template: entry.spec for entry in entries},
        warnings=_once(warnings),
    )


def _once(found: list[Refusal]) -> tuple[Refusal, ...]:
    return tuple(dict.fromkeys(found))


def _named(
    pod: JsonObject,
    claims: tuple[PodClaim, ...],
    wishes: list[ShareRequest],
    before: Mapping[str, ShareRequest],
) -> Iterator[_Entry]:
    taken = {*_claim_names(pod), *before}
    for claim, request in zip(claims, wishes, strict=True):
        name = entry_name(claim.owner.name, taken)
        taken.add(name)
        spec = claim_spec(request)
        yield _Entry(
            claim=claim, name=name, template=template_name(spec), spec=spec, request=request
        )


def _claim_names(pod: JsonObject) -> Iterator[str]:
    spec = pod.get("spec")
    entries = spec.get("resourceClaims") if isinstance(spec, dict) else None
    for entry in entries if isinstance(entries, list) else ():
        name = entry.get("name") if isinstance(entry, dict) else None
        if isinstance(name, str):
            yield name


def _patch(
    pod: JsonObject,
    requests: tuple[ContainerRequest, ...],
    entries: tuple[_Entry, ...],
    before: Mapping[str, ShareRequest],
    keys: frozenset[str],
) -> tuple[JsonObject, ...]:
    patch = Patch(pod)
    _strip(patch, pod, keys)
    for entry in entries:
        for container in entry.claim.containers:
            at = ("spec", container.section, container.index, "resources", "claims")
            patch.append(*at, value={"name": entry.name})
        template = {"name": entry.name, "resourceClaimTemplateName": entry.template}
        patch.append("spec", "resourceClaims", value=template)
    if entries:
        said = requestannotation.write(
            {**before, **{entry.name: entry.request for entry in entries}}
        )
        patch.add("metadata", "annotations", ANNOTATION, value=said)
        patch.add("metadata", "labels", LABEL, value=LABEL_VALUE)
    _edit(patch, pod, requests)
    return patch.operations


def _strip(patch: Patch, pod: JsonObject, keys: frozenset[str]) -> None:
    for container in all_containers(pod):
        resources = container.raw.get("resources")
        for kind in ("limits", "requests"):
            amounts = resources.get(kind) if isinstance(resources, dict) else None
            for key in sorted(keys & amounts.keys()) if isinstance(amounts, dict) else ():
                patch.remove("spec", container.section, container.index, "resources", kind, key)


def _edit(patch: Patch, pod: JsonObject, requests: tuple[ContainerRequest, ...]) -> None:
    """Apply the edits of the old way that mean something beside claims.

    The rest are limits of HAMi's scheduler and variables that the driver sets.
    """
    spec = pod.get("spec")
    runtime = next((name for each in requests if (name := each.edits.runtime_class_name)), None)
    if runtime and isinstance(spec, dict) and not spec.get("runtimeClassName"):
        patch.add("spec", "runtimeClassName", value=runtime)
    for each in requests:
        container = each.container
        if each.nvidia is not None:
            continue
        for name, value in each.edits.env:
            if name == _VISIBLE_DEVICES and not _has(container.raw, name, value):
                at = ("spec", container.section, container.index, "env")
                patch.append(*at, value={"name": name, "value": value})


def _has(container: JsonObject, name: str, value: str) -> bool:
    """Tell whether the last variable *name* of *container*, which counts, is *value* already."""
    env: Any = container.get("env")
    said = [
        each.get("value")
        for each in (env if isinstance(env, list) else ())
        if isinstance(each, dict) and each.get("name") == name
    ]
    return bool(said) and said[-1] == value
