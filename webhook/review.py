"""AdmissionReview: what the API server asks before it stores an object, and what it is told.

The answer's `apiVersion` is that of the question. A patch is a JSON patch (RFC 6902) in base64; the
API server accepts no other. What it passes on of warnings stands in `webhook.warningtexts`.
"""

import base64
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from gpu.refusal import Refusal
from kube.objects import JsonObject

KIND: Final = "AdmissionReview"
_COMPACT: Final = json.JSONEncoder(separators=(",", ":"))
VERSIONS: Final = ("admission.k8s.io/v1", "admission.k8s.io/v1beta1")


class ReviewError(ValueError):
    """A body that is no AdmissionReview."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UserInfo:
    """Who asks."""

    username: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    """One question; *item* and *old_item* are raw, `None` where the operation has none."""

    api_version: str
    uid: str
    operation: str
    """`CREATE`, `UPDATE`, `DELETE` or `CONNECT`."""
    group: str
    resource: str
    """Plural, such as `pods`."""
    subresource: str
    """Empty for the object itself."""
    namespace: str
    name: str
    """May be empty on CREATE: a generated name comes later."""
    user: UserInfo
    item: JsonObject | None
    old_item: JsonObject | None
    dry_run: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One answer."""

    allowed: bool
    patch: tuple[JsonObject, ...] = ()
    warnings: tuple[str, ...] = ()
    message: str = ""
    code: int = 200
    reasons: tuple[str, ...] = ()
    """Codes of the refusals in *message*, for counting."""


ALLOWED: Final = Verdict(allowed=True)
CANNOT_HELP: Final = 500
"""The code of a refusal that its receiver cannot change anything about."""


def denied(message: str, *, code: int = 403, warnings: tuple[str, ...] = ()) -> Verdict:
    """Return a refusal; 403 is for what the user can change, else `CANNOT_HELP`."""
    return Verdict(allowed=False, message=message, code=code, warnings=warnings)


def refused(
    reasons: Iterable[Refusal], *, code: int = 403, warnings: tuple[str, ...] = ()
) -> Verdict:
    """Return a refusal that gives all *reasons* in one message, each once."""
    given = dict.fromkeys(reasons)
    return Verdict(
        allowed=False,
        message="; ".join(dict.fromkeys(map(str, given))),
        code=code,
        warnings=warnings,
        reasons=tuple(dict.fromkeys(each.code for each in given)),
    )


def read(body: bytes) -> Review:
    """Return the question in *body*; raises `ReviewError`."""
    try:
        said = _DECODER.decode(body.decode())
        request = said["request"]
        user = request.get("userInfo") or {}
        resource = request.get("resource") or {}
        return Review(
            api_version=_known(said.get("apiVersion")),
            uid=_text(request["uid"]),
            operation=_text(request["operation"]),
            group=_text(resource.get("group", "")),
            resource=_text(resource["resource"]),
            subresource=_text(request.get("subResource") or ""),
            namespace=_text(request.get("namespace") or ""),
            name=_text(request.get("name") or ""),
            user=_user(user),
            item=_item(request.get("object")),
            old_item=_item(request.get("oldObject")),
            dry_run=_truth(request.get("dryRun")),
        )
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        message = f"no AdmissionReview: {type(error).__name__}: {error}"
        raise ReviewError(message[:500]) from error


def write(review: Review, verdict: Verdict) -> bytes:
    """Return the answer to *review*."""
    response: JsonObject = {"uid": review.uid, "allowed": verdict.allowed}
    if verdict.patch and verdict.allowed:
        text = _COMPACT.encode(verdict.patch).encode()
        response |= {"patchType": "JSONPatch", "patch": base64.b64encode(text).decode()}
    if verdict.warnings:
        response["warnings"] = list(verdict.warnings)
    if not verdict.allowed:
        status: JsonObject = {"code": verdict.code, "message": verdict.message}
        if verdict.code == 403:
            status["reason"] = "Forbidden"
        response["status"] = status
    answer = {"apiVersion": review.api_version, "kind": KIND, "response": response}
    return _COMPACT.encode(answer).encode()


def _known(version: Any) -> str:
    if version not in VERSIONS:
        message = f"apiVersion is {version!r}"
        raise ValueError(message)
    return str(version)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        message = f"{value!r} is no text"
        raise TypeError(message)
    return value


def _texts(value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list):
        message = f"{value!r} is no list"
        raise TypeError(message)
    return tuple(map(_text, value))


def _truth(value: Any) -> bool:
    if value is None or isinstance(value, bool):
        return bool(value)
    message = f"{value!r} is neither true nor false"
    raise TypeError(message)


def _no_json(word: str) -> Any:
    message = f"{word} is no JSON"
    raise ValueError(message)


_DECODER: Final = json.JSONDecoder(parse_constant=_no_json)
"""Python's own takes `NaN`, and what it was taken into could not be sent back."""


def _item(value: Any) -> JsonObject | None:
    if value is None or isinstance(value, dict):
        return value
    message = "the object is no object"
    raise TypeError(message)


def _user(raw: JsonObject) -> UserInfo:
    extra = raw.get("extra") or {}
    return UserInfo(
        username=_text(raw.get("username") or ""),
        groups=_texts(raw.get("groups")),
        uid=_text(raw.get("uid") or ""),
        extra={key: _texts(values) for key, values in extra.items()},
    )
