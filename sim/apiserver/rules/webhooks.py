"""Rules for webhook configurations: those without which a webhook could not be asked safely.

Source: kubernetes pkg/apis/admissionregistration/validation. Dry runs go to webhooks only because
no webhook may be stored that has side effects in them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sim.apiserver.expressions import fault_of

if TYPE_CHECKING:
    from sim.apiserver.json_values import JsonObject
    from sim.apiserver.rules.findings import Findings

_HARMLESS = ("None", "NoneOnDryRun")
_POLICIES = ("Fail", "Ignore")
_TIMEOUTS_S = range(1, 31)
_CONDITIONS_MAX = 64


def check_webhooks(found: Findings, configuration: JsonObject) -> None:
    """Note what is wrong with the webhooks of a configuration; no other kind has any."""
    hooks = configuration.get("webhooks", ())
    for index, hook in enumerate(hooks):
        _check_webhook(found, f"webhooks[{index}]", hook)


def _check_webhook(found: Findings, path: str, hook: JsonObject) -> None:
    effects = hook["sideEffects"]
    if not effects:
        found.required(f"{path}.sideEffects", f"must specify one of {', '.join(_HARMLESS)}")
    elif effects not in _HARMLESS:
        found.not_supported(f"{path}.sideEffects", effects, _HARMLESS)
    if hook["failurePolicy"] not in _POLICIES:
        found.not_supported(f"{path}.failurePolicy", hook["failurePolicy"], _POLICIES)
    if hook["timeoutSeconds"] not in _TIMEOUTS_S:
        why = "the timeout value must be between 1 and 30 seconds"
        found.invalid(f"{path}.timeoutSeconds", hook["timeoutSeconds"], why)
    _check_conditions(found, f"{path}.matchConditions", hook.get("matchConditions", []))
    config = hook.get("clientConfig", {})
    if bool(config.get("url")) == bool(config.get("service")):
        why = "exactly one of url or service is required"
        found.required(f"{path}.clientConfig", why)


def _check_conditions(found: Findings, path: str, conditions: list[JsonObject]) -> None:
    found.at_most(path, conditions, _CONDITIONS_MAX)
    names: set[str] = set()
    for index, condition in enumerate(conditions):
        at, expression = f"{path}[{index}]", condition.get("expression", "").strip()
        name = condition.get("name", "")
        if not expression:
            found.required(f"{at}.expression")
        elif (fault := fault_of(expression)) is not None:
            found.invalid(f"{at}.expression", expression, fault)
        if not name:
            found.required(f"{at}.name")
        elif name in names:
            found.duplicate(f"{at}.name", name)
        names.add(name)
