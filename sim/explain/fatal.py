"""What stops a pod on all nodes: find the field behind the scheduler's message."""

import difflib

from gpu.refusal import Refusal
from sim.explain.case import Case
from sim.explain.devicereasons import selector_path
from sim.explain.naming import Place
from sim.explain.remedies import remedy_of
from sim.scheduler.placement import Unplaced

_CLASS = "ClassMissing"
_SELECTOR = "SelectorFailed"


def fatal_refusal(case: Case, unplaced: Unplaced) -> Refusal:
    """Return the refusal behind *unplaced*, which is fatal."""
    code, text = unplaced.code, unplaced.fatal
    field, value, limit = "spec.devices", text, ""
    place = missing_class(case)
    if code == _CLASS and place is not None:
        field, value = f"{place.path}.deviceClassName", place.wanted.class_name
        close = difflib.get_close_matches(value, case.view.classes, n=3) or case.view.classes
        known = ", ".join(sorted(close)) or "none"
        limit = f"there is no such device class; there are {known}"
    elif code == _SELECTOR:
        field = next((path for path, expression in _expressions(case) if expression in text), field)
    return Refusal(code=code, field=field, value=value, limit=limit, remedy=remedy_of(code))


def missing_class(case: Case) -> Place | None:
    """Return the first request whose class is not there."""
    for place in case.places.values():
        if place.wanted.class_name not in case.view.classes:
            return place
    return None


def _expressions(case: Case) -> list[tuple[str, str]]:
    found = []
    for place in case.places.values():
        spec = (case.view.classes.get(place.wanted.class_name) or {}).get("spec") or {}
        for selector in (*(spec.get("selectors") or ()), *place.wanted.selectors):
            expression = str((selector.get("cel") or {}).get("expression", ""))
            if expression:
                found.append((selector_path(case, place, expression), expression))
    return found
