"""Names of claim templates that say what is in them, and the check that it still is.

A template is shared by all pods that ask for the same, and nobody can be kept from making an
object of any name. Its name is therefore a hash of its content with the version of the format:
an object whose content has another hash is not the one that a pod meant.

A spec here is that of the claim, which in a template stands below `spec.spec`.
"""

import hashlib
import re
from collections.abc import Mapping
from typing import Any, Final

from gpu.refusal import Refusal, RefusedError
from hami.wording import shown
from kube.objects import JsonObject
from webhook.rendering import claim_spec
from webhook.requestannotation import ANNOTATION, FORMAT_VERSION, of_pod
from webhook.sharerequest import ShareRequest, canonical

PREFIX: Final = "gpuslice-"
SPEC_MAX_BYTES: Final = 256 * 1024
"""Far more than any honest request needs; an object in etcd has at most 1.5 MiB."""

_HEX: Final = 40
_NAME: Final = re.compile(rf"{PREFIX}[0-9a-f]{{{_HEX}}}\Z", re.ASCII)


def template_name(spec: JsonObject) -> str:
    """Return the name of the template whose claims have *spec*."""
    return _name_of(canonical(spec))


def content_of(request: ShareRequest, field: str) -> tuple[str, JsonObject]:
    """Return name and spec of the template for *request*; raises `RefusedError` at *field*."""
    spec = claim_spec(request)
    text = canonical(spec)
    if len(text) > SPEC_MAX_BYTES:
        refusal = Refusal(
            code="ClaimTooLarge",
            field=field,
            value=f"{request.count} devices",
            limit=f"the spec of its claim may have {SPEC_MAX_BYTES} bytes",
            remedy="use fewer or shorter words in the annotations that choose devices",
        )
        raise RefusedError(refusal)
    return _name_of(text), spec


def _name_of(spec: str) -> str:
    content = f'{{"spec":{spec},"version":{FORMAT_VERSION}}}'
    return PREFIX + hashlib.sha256(content.encode()).hexdigest()[:_HEX]


def is_template_name(name: str) -> bool:
    """Tell whether *name* has the form of ours, whoever made the object."""
    return _NAME.match(name) is not None


def is_genuine(name: str, spec: JsonObject) -> bool:
    """Tell whether *spec*, as the API server has it, is what the template *name* stands for."""
    try:
        return template_name(spec) == name
    except (TypeError, ValueError, RecursionError):
        return False


def expected_templates(pod: JsonObject) -> Mapping[str, JsonObject] | Refusal:
    """Return the templates that *pod* needs, by name, made from its annotation alone.

    A pod that is not ours needs none. A pod whose claims and annotation do not fit each other
    gets none of them.
    """
    named = _named_templates(pod)
    found: dict[str, JsonObject] = {}
    try:
        for entry, request in of_pod(pod).items():
            name, spec = content_of(request, f"metadata.annotations[{ANNOTATION}]")
            if named.pop(entry, None) != name:
                return _refusal("TemplateNotNamed", entry, f"its request is template {name}")
            found[name] = spec
    except RefusedError as error:
        return error.refusal
    ours = next((entry for entry, name in named.items() if is_template_name(name)), None)
    if ours is not None:
        return _refusal("RequestMissing", ours, "the pod does not carry what this template asks")
    return found


def _named_templates(pod: JsonObject) -> dict[str, str]:
    """Return the template of each claim of *pod* that names one; of two entries the first."""
    spec = pod.get("spec")
    entries = spec.get("resourceClaims") if isinstance(spec, dict) else None
    found: dict[str, str] = {}
    for entry in entries if isinstance(entries, list) else ():
        name, template = _texts(entry, "name", "resourceClaimTemplateName")
        if name and template:
            found.setdefault(name, template)
    return found


def _texts(entry: Any, *keys: str) -> tuple[str, ...]:
    values = [entry.get(key) if isinstance(entry, dict) else None for key in keys]
    return tuple(value if isinstance(value, str) else "" for value in values)


def _refusal(code: str, entry: str, limit: str) -> Refusal:
    return Refusal(
        code=code,
        field="spec.resourceClaims",
        value=shown(entry),
        limit=limit,
        remedy="let the webhook translate the pod's GPU requests",
    )
