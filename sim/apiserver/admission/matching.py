"""Which webhooks a write is sent to: rules, selectors and conditions of the configurations.

Source: apiserver pkg/admission/plugin/webhook/{predicates,generic}. Every `matchPolicy` counts as
`Exact`, because resources here have one version each. Configurations are never sent to webhooks,
so that nobody can lock himself out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sim.apiserver.admission.conditions import meets_conditions
from sim.apiserver.requests import Listing
from sim.apiserver.selectors import Requirement

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sim.apiserver.admission.asked import Asked
    from sim.apiserver.json_values import JsonObject
    from sim.apiserver.registry import Registry

MUTATING = "mutatingwebhookconfigurations"
VALIDATING = "validatingwebhookconfigurations"

_OPERATORS = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "absent"}


def configured(registry: Registry, plural: str) -> list[JsonObject]:
    """Return all webhooks of configurations of one sort, in the order of those by name."""
    items = registry.list(plural, None, Listing()).items
    ordered = sorted(items, key=lambda item: str(item["metadata"]["name"]))
    return [hook for item in ordered for hook in item.get("webhooks", ())]


def is_wanted(registry: Registry, hook: JsonObject, asked: Asked) -> bool:
    """Tell whether *hook* is to see *asked*; 403 when its conditions cannot say."""
    return (
        asked.resource.plural not in {MUTATING, VALIDATING}
        and any(_follows(rule, asked) for rule in hook.get("rules", ()))
        and _selects_namespace(registry, hook, asked)
        and _selects_object(hook, asked)
        and meets_conditions(hook, asked)
    )


def _follows(rule: JsonObject, asked: Asked) -> bool:
    row = asked.resource
    return (
        _names(rule, "operations", asked.operation)
        and _names(rule, "apiGroups", row.group)
        and _names(rule, "apiVersions", row.version)
        and _in_scope(rule.get("scope", "*"), asked)
        and any(_is_resource(text, asked) for text in rule.get("resources", ()))
    )


def _names(rule: JsonObject, key: str, value: str) -> bool:
    told = rule.get(key, ())
    return "*" in told or value in told


def _in_scope(scope: str, asked: Asked) -> bool:
    return scope == "*" or (scope == "Namespaced") == asked.resource.namespaced


def _is_resource(text: str, asked: Asked) -> bool:
    plural, _, subresource = text.partition("/")
    return plural in {"*", asked.resource.plural} and subresource in {
        asked.write.subresource,
        *(("*",) if subresource == "*" else ()),
    }


def _selects_namespace(registry: Registry, hook: JsonObject, asked: Asked) -> bool:
    selector = hook.get("namespaceSelector") or {}
    if not selector:
        return True
    if asked.resource.plural == "namespaces":
        return _selects(selector, _labels(asked.new or asked.old))
    if not asked.resource.namespaced:
        return True
    return _selects(selector, _labels(registry.get("namespaces", asked.namespace, None)))


def _selects_object(hook: JsonObject, asked: Asked) -> bool:
    selector = hook.get("objectSelector") or {}
    states = [state for state in (asked.new, asked.old) if state is not None]
    return not selector or any(_selects(selector, _labels(state)) for state in states)


def _labels(obj: JsonObject | None) -> Mapping[str, str]:
    labels: Mapping[str, str] = ((obj or {}).get("metadata") or {}).get("labels") or {}
    return labels


def _selects(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    exact = (selector.get("matchLabels") or {}).items()
    if any(labels.get(key) != value for key, value in exact):
        return False
    return all(
        Requirement(
            each["key"], _OPERATORS[each["operator"]], frozenset(each.get("values") or ())
        ).accepts(labels)
        for each in selector.get("matchExpressions") or ()
    )
