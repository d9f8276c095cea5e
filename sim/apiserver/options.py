"""From query parameters and bodies of requests to options, judged as the real server does.

Sources: apimachinery pkg/apis/meta/v1/validation and pkg/apis/meta/internalversion/validation. Each
verb has an options type of its own, which stands in the refusal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aiohttp import web

from sim.apiserver.errors import bad_request, invalid
from sim.apiserver.requests import Listing, Write
from sim.apiserver.rules.findings import Findings

if TYPE_CHECKING:
    from sim.apiserver import paths
    from sim.apiserver.json_values import JsonObject

USER = web.RequestKey("user", str)
"""Where the door notes on a request who asks."""

_KINDS = {"POST": "CreateOptions", "PUT": "UpdateOptions", "PATCH": "PatchOptions"}
_VALIDATIONS = ("", "Ignore", "Strict", "Warn")
_MATCHES = ("Exact", "NotOlderThan", "")
_POLICIES = ("Foreground", "Background", "Orphan", "nil")


def listing_of(request: web.Request) -> Listing:
    """Return what a list, watch or deletecollection selects."""
    query = request.query
    _check_listing(request)
    return Listing(
        labels=query.get("labelSelector", ""),
        fields=query.get("fieldSelector", ""),
        limit=number(request, "limit"),
        continue_token=query.get("continue", ""),
        resource_version=query.get("resourceVersion", ""),
    )


def write_of(request: web.Request, target: paths.Target, options: JsonObject) -> Write:
    """Return the options of a write from query and, for a DELETE, from its body."""
    query = request.query
    preconditions = options.get("preconditions") or {}
    if not isinstance(preconditions, dict):
        raise bad_request(
            "json: cannot unmarshal string into Go struct field DeleteOptions.preconditions "
            "of type v1.Preconditions"
        )
    grace = options.get("gracePeriodSeconds", query.get("gracePeriodSeconds"))
    dry_run = query.getall("dryRun", []) or options.get("dryRun") or []
    validation = query.get("fieldValidation", "")
    found = Findings()
    if any(stage != "All" for stage in dry_run):
        found.not_supported("dryRun", dry_run, ("All",))
    if validation not in _VALIDATIONS:
        found.not_supported("fieldValidation", validation, _VALIDATIONS)
    policy = options.get("propagationPolicy", query.get("propagationPolicy")) or ""
    orphans = options.get("orphanDependents")
    if policy and policy not in _POLICIES:
        found.not_supported("propagationPolicy", policy, _POLICIES, in_order=True)
    elif policy and orphans is not None:
        why = "orphanDependents and deletionPropagation cannot be both set"
        found.invalid("propagationPolicy", policy, why)
    _refuse(found, _KINDS.get(request.method, "DeleteOptions"))
    if orphans is not None:
        policy = "Orphan" if orphans else "Background"
    return Write(
        subresource=target.subresource,
        patch_type=request.content_type,
        dry_run=bool(dry_run),
        field_validation=validation or "Warn",
        field_manager=query.get("fieldManager", ""),
        force=flag(request, "force"),
        uid=preconditions.get("uid") or "",
        resource_version=preconditions.get("resourceVersion") or "",
        grace_period_s=None if grace is None else int(grace),
        propagation=policy,
        user=request.get(USER, ""),
    )


def flag(request: web.Request, name: str) -> bool:
    """Tell whether a parameter is set."""
    return request.query.get(name, "") in {"1", "true", "True"}


def number(request: web.Request, name: str) -> int:
    """Return a whole number, 0 when the parameter is not there."""
    text = request.query.get(name, "") or "0"
    if not text.isdigit():
        message = f'strconv.ParseInt: parsing "{text}": invalid syntax'
        raise bad_request(message)
    return int(text)


def _check_listing(request: web.Request) -> None:
    query: Any = request.query
    version, match = query.get("resourceVersion", ""), query.get("resourceVersionMatch", "")
    initial = "sendInitialEvents" in query
    watch = flag(request, "watch")
    found = Findings()
    path = "resourceVersionMatch"
    if initial:
        _check_initial(found, match, watch=watch)
    elif match and watch:
        found.forbidden(
            path, "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
        )
    elif match and not version:
        found.forbidden(
            path, "resourceVersionMatch is forbidden unless resourceVersion is provided"
        )
    elif match and match not in _MATCHES:
        found.not_supported(path, match, _MATCHES, in_order=True)
    _refuse(found, "ListOptions")


def _check_initial(found: Findings, match: str, *, watch: bool) -> None:
    if not watch:
        found.forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list")
        return
    path = "resourceVersionMatch"
    if match != "NotOlderThan":
        why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        found.forbidden(path, why)
    if match not in {"", "NotOlderThan"}:
        found.not_supported(path, match, ("NotOlderThan",))


def _refuse(found: Findings, kind: str) -> None:
    if found.causes:
        qualified = f"{kind}.meta.k8s.io"
        raise invalid(qualified, "", tuple(found.causes))
