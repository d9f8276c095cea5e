"""`matchConditions`: expressions that keep a webhook from being asked about most writes.

One that is false keeps the webhook out whatever the others say; one that fails makes the write
forbidden or the webhook left out, as the failure policy wants (apiserver:
pkg/admission/plugin/webhook/matchconditions).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sim.apiserver.errors import forbidden
from sim.apiserver.expressions import answer_of

if TYPE_CHECKING:
    from sim.apiserver.admission.asked import Asked
    from sim.apiserver.json_values import JsonObject


def meets_conditions(hook: JsonObject, asked: Asked) -> bool:
    """Tell whether all conditions hold; 403 when one fails and failures count."""
    conditions = hook.get("matchConditions")
    if not conditions:
        return True
    request = asked.review()["request"]
    values = {
        "object": request.pop("object"),
        "oldObject": request.pop("oldObject"),
        "request": request,
    }
    failures = []
    for condition in conditions:
        answer = answer_of(condition["expression"], values)
        if answer is False:
            return False
        if isinstance(answer, str):
            failures.append(answer)
    if failures and hook.get("failurePolicy") == "Ignore":
        return False
    if failures:
        why = failures[0] if len(failures) == 1 else f"[{', '.join(failures)}]"
        raise forbidden(asked.resource.qualified, asked.name, why)
    return True
