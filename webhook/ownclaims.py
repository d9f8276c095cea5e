"""That nobody slips other content under the names that translated pods rely on.

Templates of our form of name are what their name says or do not come into being, whoever makes
them. Claims are made from them by the control plane, perhaps of an object that was there before
admission was; so each is compared again with what its pod asked for.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from gpu.refusal import Refusal
from hami.wording import shown
from kube.objects import JsonObject
from webhook.claimspec import objects
from webhook.templatecontent import PREFIX, expected_templates, is_genuine

POD_CLAIM_NAME: Final = "resource.kubernetes.io/pod-claim-name"
"""On claims made from templates (kubernetes: `pkg/controller/resourceclaim`)."""

Genuine = Callable[[str, JsonObject], bool]
Expected = Callable[[JsonObject], Mapping[str, JsonObject] | Refusal]


def check_template(template: JsonObject, *, genuine: Genuine = is_genuine) -> tuple[Refusal, ...]:
    """Return why a ResourceClaimTemplate must not have its name."""
    metadata = _object(template, "metadata")
    name = metadata.get("name") or metadata.get("generateName")
    if not isinstance(name, str) or not name.startswith(PREFIX):
        return ()
    if genuine(name, _object(_object(template, "spec"), "spec")):
        return ()
    return (
        Refusal(
            code="TemplateNameReserved",
            field="metadata.name",
            value=shown(name),
            limit=f"names that begin with `{PREFIX}` say what is in the template, and this is not",
            remedy="choose another name",
        ),
    )


class Owner(NamedTuple):
    """The pod that a claim was made for."""

    name: str
    uid: str
    entry: str
    """What the pod calls the claim."""


def owner_of(claim: JsonObject) -> Owner | None:
    """Return the pod that *claim* says it was made for."""
    metadata = _object(claim, "metadata")
    entry = _object(metadata, "annotations").get(POD_CLAIM_NAME)
    for _, owner in objects(metadata, "ownerReferences"):
        name, uid = owner.get("name"), owner.get("uid")
        if (owner.get("apiVersion"), owner.get("kind")) != ("v1", "Pod"):
            continue
        if owner.get("controller") is not True:
            continue
        if isinstance(name, str) and isinstance(uid, str) and isinstance(entry, str):
            return Owner(name, uid, entry)
    return None


def check_generated_claim(
    claim: JsonObject,
    pod: JsonObject | None,
    *,
    expected: Expected = expected_templates,
    genuine: Genuine = is_genuine,
) -> tuple[Refusal, ...]:
    """Return why *claim* is not what *pod*, for which it was made, asked for.

    Claims of pods that name templates of others are none of our business. A pod that is not
    there is no reason to trust the claim; the control plane tries again.
    """
    owner = owner_of(claim)
    if owner is None:
        return ()
    if pod is None or _object(pod, "metadata").get("uid") != owner.uid:
        limit = "the pod that it was made for is not known"
        return (_foreign("ClaimOwnerUnknown", "metadata.ownerReferences", owner.name, limit),)
    template = _template_of(pod, owner.entry)
    if template is None or not template.startswith(PREFIX):
        return ()
    wanted = expected(pod)
    if isinstance(wanted, Refusal):
        return (wanted,)
    if template in wanted and genuine(template, _object(claim, "spec")):
        return ()
    limit = (
        f"it is not what pod {owner.name} asked for: the template has another content than its name"
    )
    return (_foreign("TemplateForeign", "spec", template, limit),)


def _template_of(pod: JsonObject, entry: str) -> str | None:
    for _, each in objects(_object(pod, "spec"), "resourceClaims"):
        if each.get("name") == entry:
            template = each.get("resourceClaimTemplateName")
            return template if isinstance(template, str) else None
    return None


def _object(holder: Any, key: str) -> JsonObject:
    found = holder.get(key)
    return found if isinstance(found, dict) else {}


def _foreign(code: str, field: str, value: str, limit: str) -> Refusal:
    remedy = "delete the template, so that it is made anew" if code == "TemplateForeign" else ""
    return Refusal(code=code, field=field, value=shown(value), limit=limit, remedy=remedy)
