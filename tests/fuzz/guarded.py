"""What admission must not let through, whoever asks in whatever words."""

from collections.abc import Iterator, Mapping
from fractions import Fraction
from math import ceil
from typing import Any, Final

from gpu.names import CLASS_MIG, CLASS_SHARE, CLASS_WHOLE, DRIVER
from hami.deviceconfig import NvidiaConfig
from hami.keys import SCHEDULER_OWNED
from hami.quota import quota_names
from tests.fuzz.asked import MIB, number
from tests.fuzz.running import expect
from tests.fuzz.shareconfigs import is_valid
from tests.fuzz.world import FACTS, WRITER
from webhook.booking import Tariff, cost_of_spec
from webhook.review import Review, Verdict

_DRA: Final = "resource.k8s.io"
_NAMES: Final = quota_names(NvidiaConfig(), ())[0]
_TARIFF: Final = Tariff(names=_NAMES)
_BINDINGS: Final = (("pods", "binding"), ("bindings", ""))
_WITH_METADATA: Final = (("pods", ""), ("pods", "status"))


def expect_guarded(review: Review, changed: Verdict, judged: Verdict) -> None:
    """Expect a refusal of forged allocations and of claims that cannot be meant."""
    forged = sorted(_forged(review))
    if forged:
        expect(not judged.allowed, f"a forged annotation was taken: {forged}")
        new_pod = (review.resource, review.subresource, review.operation) == ("pods", "", "CREATE")
        expect(not (new_pod and changed.allowed), f"a forged annotation was taken: {forged}")
    if review.group == _DRA and review.operation == "CREATE" and not review.subresource:
        spec = _at(review.item, "spec")
        if review.resource == "resourceclaimtemplates":
            spec = _at(spec, "spec")
        if review.resource in {"resourceclaims", "resourceclaimtemplates"} and judged.allowed:
            _expect_claim(spec)


def _forged(review: Review) -> Iterator[str]:
    asked = review.resource, review.subresource
    if review.group or review.item is None:
        return
    if review.operation == "CREATE" and asked in (("pods", ""), *_BINDINGS):
        if asked != ("pods", "") and review.user.username == WRITER:
            return
        old: Mapping[str, Any] = {}
    elif review.operation == "UPDATE" and asked in _WITH_METADATA:
        if review.user.username == WRITER:
            return
        old = _at(_at(review.old_item, "metadata"), "annotations")
    else:
        return
    new = _at(_at(review.item, "metadata"), "annotations")
    for key in SCHEDULER_OWNED:
        if (key in new) != (key in old) or new.get(key) != old.get(key):
            yield key


def _expect_claim(spec: Mapping[str, Any]) -> None:
    _expect_cost(spec)
    for request in _objects(_at(spec, "devices"), "requests"):
        for part in (_at(request, "exactly"), *_objects(request, "firstAvailable")):
            if part.get("deviceClassName") in (CLASS_SHARE, CLASS_WHOLE):
                _expect_amounts(_at(_at(part, "capacity"), "requests"), FACTS.gpus_by_memory_mib)
            elif part.get("deviceClassName") == CLASS_MIG:
                _expect_amounts(_at(_at(part, "capacity"), "requests"), FACTS.mig_by_memory_mib)
    for entry in _objects(_at(spec, "devices"), "config"):
        opaque = _at(entry, "opaque")
        if opaque.get("driver") == DRIVER:
            parameters: Any = opaque.get("parameters")
            expect(is_valid(parameters), "an invalid configuration was taken")
            expect(parameters.get("enforcement") != "none", "a share without limits was taken")
            expect(parameters.get("corePolicy") != "disable", "cores without limits were taken")


def _expect_cost(spec: Mapping[str, Any]) -> None:
    """Expect that a quota counts at least the shares that *spec* names without alternatives."""
    cost = cost_of_spec(spec, FACTS, _TARIFF)
    least = 0
    for request in _objects(_at(spec, "devices"), "requests"):
        part = _at(request, "exactly")
        memory = number(_at(_at(part, "capacity"), "requests").get("memory"))
        counts = part.get("deviceClassName") == CLASS_SHARE and part.get("adminAccess") is not True
        if counts and memory and part.get("allocationMode") != "All":
            count = part.get("count")
            times = count if isinstance(count, int) and count > 0 else 1
            least += ceil(memory / MIB) * times
    found = cost.amounts.get(_NAMES.memory, 0)
    expect(found >= least, f"a quota counts less: {found} and not {least}")


def _expect_amounts(asked: Mapping[str, Any], sizes_mib: Mapping[int, int]) -> None:
    for key, raw in asked.items():
        found = number(raw)
        expect(found is not None, f"no amount was taken: {raw!r}")
        name = key.removeprefix(f"{DRIVER}/")
        if name == "memory":
            in_bounds = MIB <= (found or Fraction()) <= max(sizes_mib) * MIB
            expect(in_bounds, f"an impossible size was taken: {raw!r}")
        elif name == "cores":
            expect(0 <= (found or Fraction()) <= 100, f"impossible cores were taken: {raw!r}")


def _at(holder: Any, key: str) -> Mapping[str, Any]:
    found = holder.get(key) if isinstance(holder, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def _objects(holder: Mapping[str, Any], key: str) -> Iterator[Mapping[str, Any]]:
    found = holder.get(key)
    return (each for each in (found if isinstance(found, list) else ()) if isinstance(each, dict))
