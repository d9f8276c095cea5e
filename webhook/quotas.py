"""What ResourceQuotas say of GPUs: bounds that hold, and remarks on what was meant otherwise.

`limits.<name>` and `requests.<name>` bound the same. `0` forbids, an absent key bounds nothing, and
a text that cannot be read forbids as well, with that reason, since nobody knows how much it allows.
The API server takes any domain name as a key (kubernetes: `pkg/apis/core/validation`), so that a
misspelt one bounds nothing in silence: it gets a remark. Scopes would exempt pods whose claims
nobody can tell from others, so GPU keys hold for the whole namespace whatever the scopes are.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any, Final

from gpu.refusal import Refusal
from hami.quota import QuotaNames
from hami.wording import shown
from kube.objects import JsonObject
from kube.quantity import Quantity, QuantityError, parse

_LIMITS: Final = "limits."
_REQUESTS: Final = "requests."
_MIB: Final = 1 << 20
_NEAR_NAME: Final = 0.6
_NEAR_DOMAIN: Final = 0.8


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """One key of one quota."""

    quota: str
    key: str
    resource: str
    """The key without its prefix."""
    limit: int | None
    """MiB, percent or devices; `None` where the text cannot be read."""
    written: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaReading:
    """What one ResourceQuota says of our resources."""

    bounds: tuple[Bound, ...] = ()
    remarks: tuple[Refusal, ...] = ()
    """For an event on the quota; none changes what holds."""


def bounds_of(quotas: Iterable[JsonObject], names: Sequence[QuotaNames]) -> tuple[Bound, ...]:
    """Return what holds in a namespace with *quotas*: all of them."""
    return tuple(bound for quota in quotas for bound in read_quota(quota, names).bounds)


def read_quota(quota: JsonObject, names: Sequence[QuotaNames]) -> QuotaReading:
    """Read one ResourceQuota; never raises."""
    spec = _mapping(quota.get("spec"))
    name = _mapping(quota.get("metadata")).get("name")
    name = name if isinstance(name, str) else ""
    factors = _factors(names)
    bounds: list[Bound] = []
    remarks: list[Refusal] = []
    for key, raw in _mapping(spec.get("hard")).items():
        prefix, resource = _split(key)
        if prefix and resource in factors:
            bound = _bound(name, key, raw, factors[resource])
            bounds.append(bound)
            remarks += _about_value(bound, raw, is_memory=factors[resource] > 0)
            if prefix == _REQUESTS:
                remarks.append(_counted_twice(bound))
        elif near := _near(key, resource, factors, prefixed=bool(prefix)):
            remarks.append(_unknown(key, raw, near))
    if bounds and (spec.get("scopes") or spec.get("scopeSelector")):
        remarks.append(_scopes(spec))
    return QuotaReading(bounds=tuple(bounds), remarks=tuple(remarks))


def _factors(names: Sequence[QuotaNames]) -> dict[str, int]:
    """Return each resource with the MiB of its unit, 0 for what is no memory."""
    found: dict[str, int] = {}
    for each in names:
        found |= {name: 0 for name in (each.cores, each.count) if name}
        if each.memory:
            found[each.memory] = each.memory_factor
    return found


def _split(key: str) -> tuple[str, str]:
    for prefix in (_LIMITS, _REQUESTS):
        if key.startswith(prefix):
            return prefix, key.removeprefix(prefix)
    return "", key


def _bound(quota: str, key: str, raw: Any, factor: int) -> Bound:
    return Bound(
        quota=quota,
        key=key,
        resource=_split(key)[1],
        limit=_limit(raw, factor),
        written=shown(raw),
    )


def _limit(raw: Any, factor: int) -> int | None:
    exact = _quantity(raw)
    if exact is None or exact.nanos < 0:
        return None
    if factor and _is_binary(raw):
        return exact.value() // _MIB
    return exact.value() * max(1, factor) if exact.is_whole() else None


def _quantity(raw: Any) -> Quantity | None:
    if isinstance(raw, int) and not isinstance(raw, bool) and abs(raw) < 1 << 63:
        raw = str(raw)
    try:
        return parse(raw) if isinstance(raw, str) else None
    except QuantityError:
        return None


def _is_binary(raw: Any) -> bool:
    return isinstance(raw, str) and raw.endswith("i")


def _about_value(bound: Bound, raw: Any, *, is_memory: bool) -> Iterator[Refusal]:
    if bound.limit is None:
        yield Refusal(
            code="QuotaUnreadable",
            field=f"spec.hard[{bound.key}]",
            value=bound.written,
            limit=f"{bound.key} must be a whole number; until then it allows nothing",
        )
    elif is_memory and _is_binary(raw):
        yield Refusal(
            code="QuotaReadAsBytes",
            field=f"spec.hard[{bound.key}]",
            value=bound.written,
            limit=f"{bound.key}: {bound.written} read as {bound.limit} MiB",
        )
    elif is_memory and isinstance(raw, str) and raw.endswith(("G", "T", "P", "E")):
        yield Refusal(
            code="QuotaLooksLikeBytes",
            field=f"spec.hard[{bound.key}]",
            value=bound.written,
            limit=f"{bound.key}: {bound.written} read as {bound.limit} MiB",
            remedy=f"write {bound.written}i for bytes",
        )


def _counted_twice(bound: Bound) -> Refusal:
    return Refusal(
        code="QuotaCountedByKubernetesToo",
        field=f"spec.hard[{bound.key}]",
        value=bound.written,
        limit=f"{bound.key} bounds the same as {_LIMITS}{bound.resource}, and Kubernetes itself"
        " counts it too, as containers write it and without multiplying by their count",
        remedy=f"write {_LIMITS}{bound.resource} to be counted once",
    )


def _unknown(key: str, raw: Any, near: str) -> Refusal:
    return Refusal(
        code="QuotaKeyUnknown",
        field=f"spec.hard[{shown(key)}]",
        value=shown(raw),
        limit=f"{shown(key)} matches no configured GPU resource",
        remedy=f"did you mean {near}?",
    )


def _scopes(spec: Mapping[str, Any]) -> Refusal:
    field = "spec.scopes" if spec.get("scopes") else "spec.scopeSelector"
    return Refusal(
        code="QuotaScopesIgnored",
        field=field,
        value=shown(spec.get("scopes") or spec.get("scopeSelector")),
        limit="GPU keys hold for all pods and claims of the namespace, whatever the scopes are",
        remedy="put them into a quota without scopes",
    )


def _near(key: str, resource: str, known: Iterable[str], *, prefixed: bool) -> str | None:
    """Return what was meant by a key that bounds nothing, or `None` for one of somebody else."""
    if key.startswith("count/"):
        return None
    domain, _, name = resource.lower().rpartition("/")
    best, best_likeness = None, 0.0
    for each in known:
        known_domain, _, known_name = each.rpartition("/")
        likeness = _likeness(name, known_name)
        if domain != known_domain and not (
            likeness == 1 and (not domain or _likeness(domain, known_domain) >= _NEAR_DOMAIN)
        ):
            continue
        if likeness >= _NEAR_NAME and likeness > best_likeness:
            best, best_likeness = each, likeness
    return best if best is None or prefixed or best_likeness < 1 else f"{_LIMITS}{best}"


def _likeness(one: str, other: str) -> float:
    return SequenceMatcher(None, one, other).ratio()


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
