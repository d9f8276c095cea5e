"""The translation of a pod's GPU limits into claims (HAMi's requests on a DRA cluster).

Only the pod is written: it names claim templates by the hash of their content and carries, in an
annotation, what that content is, from which the templates are made later. So a dry run, a refusal
by another webhook or a second call leaves nothing behind. All containers are read before the
first operation is made.

A resource that stayed in the limits would keep the pod pending for ever, since nobody offers it
on such a cluster; so all of our names go, also where they ask for nothing.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from gpu.refusal import Refusal, RefusedError
from hami.containers import all_containers
from hami.nvidia import ENV_VISIBLE_DEVICES
from hami.requests import ContainerRequest, Invalid, Valid
from kube.objects import JsonObject
from webhook import requestannotation
from webhook.claimcontent import Content, Contents
from webhook.devicewish import Asked, TranslationSettings
from webhook.facts import ClusterFacts
from webhook.legacy import append_variable
from webhook.patching import Patch
from webhook.podclaims import PodClaim, entry_name, grouped, held_too_long
from webhook.requestannotation import ANNOTATION, LABEL, LABEL_VALUE
from webhook.sharerequest import ShareRequest
from webhook.typewords import surprises

__all__ = ["Translation", "TranslationSettings", "translate"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Translation:
    """What becomes of a pod."""

    patch: tuple[JsonObject, ...]
    templates: Mapping[str, JsonObject] = field(default_factory=dict)
    """The specs of the claims, by the name of their template."""
    warnings: tuple[Refusal, ...] = ()
    """Beside those of reading the pod."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Made:
    """A claim of the pod with its content."""

    claim: PodClaim
    content: Content


_CONTENTS: Final = Contents()


def translate(
    pod: JsonObject,
    valid: Valid,
    facts: ClusterFacts,
    settings: TranslationSettings,
    *,
    beside: Callable[[Patch], None] | None = None,
) -> Translation | Invalid:
    """Return how *pod* asks for the same through claims; *valid* is what it was read as.

    *beside* adds to the patch what is not about claims.
    """
    claims = grouped(valid.requests)
    reasons: list[Refusal] = []
    warnings = [*surprises(valid.preferences, facts.models)] if claims else []
    warnings += held_too_long(claims)
    made: list[_Made] = []
    for claim in claims:
        try:
            content = _CONTENTS.of(
                Asked(
                    device=claim.device,
                    preferences=valid.preferences,
                    facts=facts,
                    settings=settings,
                    path=claim.owner.path,
                )
            )
        except RefusedError as error:
            reasons.append(error.refusal)
        else:
            made.append(_Made(claim=claim, content=content))
            warnings += content.warnings
    taken = frozenset(_claim_names(pod))
    before: dict[str, ShareRequest] = {}
    try:
        before = _still_named(requestannotation.of_pod(pod), taken)
    except RefusedError as error:
        reasons.append(error.refusal)
    if reasons:
        return Invalid(reasons=_once(reasons), warnings=_once(warnings))
    patch = _patch(pod, valid.requests, _named(made, taken), before, settings.keys)
    if beside is not None:
        beside(patch)
    return Translation(
        patch=patch.operations,
        templates={each.content.template: each.content.spec for each in made},
        warnings=_once(warnings),
    )


def _still_named(
    before: Mapping[str, ShareRequest], names: frozenset[str]
) -> dict[str, ShareRequest]:
    """Leave out what an annotation says that was copied without its claims."""
    return {name: request for name, request in before.items() if name in names}


def _once(found: list[Refusal]) -> tuple[Refusal, ...]:
    return tuple(dict.fromkeys(found))


def _named(made: list[_Made], taken: frozenset[str]) -> dict[str, _Made]:
    """Return the claims by a name that the pod has not *taken*."""
    found: dict[str, _Made] = {}
    for each in made:
        found[entry_name(each.claim.owner.name, {*taken, *found})] = each
    return found


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
    named: Mapping[str, _Made],
    before: Mapping[str, ShareRequest],
    keys: frozenset[str],
) -> Patch:
    patch = Patch(pod)
    _strip(patch, pod, keys)
    for name, made in named.items():
        for container in made.claim.containers:
            at = ("spec", container.section, container.index, "resources", "claims")
            patch.append(*at, value={"name": name})
        template = {"name": name, "resourceClaimTemplateName": made.content.template}
        patch.append("spec", "resourceClaims", value=template)
    if named:
        texts = {name: requestannotation.request_text(each) for name, each in before.items()}
        texts |= {name: made.content.text for name, made in named.items()}
        text = requestannotation.joined(texts)
        patch.add("metadata", "annotations", ANNOTATION, value=text)
        patch.add("metadata", "labels", LABEL, value=LABEL_VALUE)
    _edit(patch, pod, requests)
    return patch


def _strip(patch: Patch, pod: JsonObject, keys: frozenset[str]) -> None:
    for container in all_containers(pod):
        resources = container.raw.get("resources")
        for kind in ("limits", "requests"):
            amounts = resources.get(kind) if isinstance(resources, dict) else None
            named = sorted(keys & amounts.keys()) if isinstance(amounts, dict) else ()
            if named:
                at = ("spec", container.section, container.index, "resources", kind)
                patch.remove(*at, keys=named)


def _edit(patch: Patch, pod: JsonObject, requests: tuple[ContainerRequest, ...]) -> None:
    """Apply the edits of the old way that mean something beside claims.

    The rest are limits of HAMi's scheduler and variables that the driver sets.
    """
    spec = pod.get("spec")
    runtime = next((name for each in requests if (name := each.edits.runtime_class_name)), None)
    if runtime and isinstance(spec, dict) and not spec.get("runtimeClassName"):
        patch.add("spec", "runtimeClassName", value=runtime)
    hide_devices(patch, requests)


def hide_devices(patch: Patch, requests: Iterable[ContainerRequest]) -> None:
    """Show no GPU to containers that have none, where the site says so.

    A container that was translated before has a claim in the place of its limits.
    """
    for each in requests:
        resources = each.container.raw.get("resources")
        has_claims = isinstance(resources, dict) and bool(resources.get("claims"))
        if each.nvidia is None and not has_claims:
            for name, value in each.edits.env:
                if name == ENV_VISIBLE_DEVICES:
                    append_variable(patch, each, name, value)
