"""The annotation in which a translated pod carries what its claims are to contain.

It is written at admission, when no object may be made, and read when the templates are. Anybody
may write it, so reading is strict: what it says is what a claim may say, or it is an error.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gpu.refusal import Refusal, RefusedError
from hami.wording import shown
from webhook.alternatives import fits
from webhook.sharerequest import ShareRequest, canonical, to_json

ANNOTATION: Final = "gpuslice.io/requests"
LABEL: Final = "gpuslice.io/translated"
LABEL_VALUE: Final = "true"
FORMAT_VERSION: Final = 1
"""Of the annotation and of what is made from it: the content hash has it too."""

_TEXT_MAX: Final = 256 * 1024
_FIELD: Final = f"metadata.annotations[{ANNOTATION}]"

_PodClaimName = Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$")]


class _Content(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, hide_input_in_errors=True)

    version: Literal[1]
    claims: dict[_PodClaimName, ShareRequest]


def write(requests: Mapping[str, ShareRequest]) -> str:
    """Return the annotation's text for *requests*, by the name of the pod's claim."""
    return joined({name: request_text(request) for name, request in requests.items()})


def request_text(request: ShareRequest) -> str:
    """Return what stands for *request* in the annotation."""
    return canonical(to_json(request))


def joined(texts: Mapping[str, str]) -> str:
    """Return the annotation's text for requests of which each is a text already."""
    claims = ",".join(f"{canonical(name)}:{texts[name]}" for name in sorted(texts))
    return f'{{"claims":{{{claims}}},"version":{FORMAT_VERSION}}}'


def read(text: str) -> Mapping[str, ShareRequest]:
    """Return what *text* says; raises `RefusedError`."""
    if len(text) > _TEXT_MAX:
        raise _refused("", f"it has {len(text)} characters, the limit is {_TEXT_MAX}")
    try:
        content = _Content.model_validate_json(text.encode(errors="replace"))
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        raise _refused(".".join(map(str, first["loc"])), first["msg"]) from error
    for name, request in content.claims.items():
        if not fits(request):
            raise _refused(name, "it has more alternatives than a claim takes")
    return content.claims


def of_pod(pod: Any) -> Mapping[str, ShareRequest]:
    """Return what the annotation of *pod* says, nothing without one; raises `RefusedError`."""
    metadata = pod.get("metadata") if isinstance(pod, Mapping) else None
    annotations = metadata.get("annotations") if isinstance(metadata, Mapping) else None
    text = annotations.get(ANNOTATION) if isinstance(annotations, Mapping) else None
    if text is None:
        return {}
    if not isinstance(text, str):
        raise _refused("", "it must be a text")
    return read(text)


def _refused(value: str, limit: str) -> RefusedError:
    return RefusedError(
        Refusal(
            code="RequestsAnnotationInvalid",
            field=_FIELD,
            value=shown(value),
            limit=limit,
            remedy="leave the annotation to the webhook",
        )
    )
