"""The one place where a quantity that a user wrote becomes a number of MiB, devices or percent.

Parse, scale and bound belong together: HAMi multiplied before it checked and narrowed to 32 bits,
so that 16Gi of memory became 0 MiB, which fits on every GPU. Here numbers stay as long as they are,
and each outcome is a number inside its bounds or a refusal.

Three facts of the API server decide what is read. It stores quantities in canonical form, so
5000 arrives as `5k`. It checks extended resources (whole numbers, no negative ones, a limit, and
a request that equals it) only after admission, so what admission takes away it must check itself.
And it fills in a request from a limit before admission.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from gpu.refusal import Refusal, RefusedError
from hami.containers import Container
from hami.wording import shown
from kube import quantity

MEMORY_LIMIT_MIB: Final = 16 * 1024 * 1024
"""16 TiB: above it a number is a mistake in the unit, not a GPU."""
_MIB: Final = 1 << 20
_SHIFTS: Final = {"M": 0, "G": 10, "T": 20}
"""How many MiB `1Mi`, `1Gi` and `1Ti` are, as powers of two."""
_PLAIN: Final = re.compile(r"[0-9]+(?:[eE]\+?[0-9]+|[kMGTPE])?")
_DIGITS_MAX: Final = 9
_LIMITS: Final = "limits"
_REQUESTS: Final = "requests"


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """A quantity of one container, as it was written: equal in limits and requests."""

    container: Container
    resource: str
    raw: Any
    in_requests: bool
    """Whether requests say it too."""

    @property
    def field(self) -> str:
        """Where it stands."""
        return field_of(self.container, self.resource)


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """A size once read."""

    mib: int
    """0 to `MEMORY_LIMIT_MIB`, after the factor."""
    units: int
    """The plain number that says it: *mib* before the factor."""
    warning: Refusal | None = None
    """Says how bytes were read."""


def field_of(container: Container, resource: str, *, section: str = _LIMITS) -> str:
    """Return the path of *resource*, naming the container as Kubernetes' events do."""
    place = f"spec.{container.section}{{{shown(container.name)}}}" if container.name else None
    return f"{place or container.path}.resources.{section}[{resource}]"


def names(container: Container) -> frozenset[str]:
    """Return every resource that *container* names."""
    limits, requests = _sections(container)
    return frozenset(limits.keys() | requests.keys())


def given(container: Container, resource: str) -> Given | None:
    """Return what *container* says of *resource*; raises `RefusedError` for an unequal pair."""
    limits, requests = _sections(container)
    if resource in limits:
        found = Given(
            container=container,
            resource=resource,
            raw=limits[resource],
            in_requests=resource in requests,
        )
        if found.in_requests and not _equal(found, requests[resource]):
            raise RefusedError(
                Refusal(
                    code="RequestDiffersFromLimit",
                    field=found.field,
                    value=shown(found.raw),
                    limit=f"{resource} has limit {shown(found.raw)}"
                    f" and request {shown(requests[resource])}",
                    remedy="write the same in both or leave the request out",
                )
            )
        return found
    if resource in requests:
        raise RefusedError(
            Refusal(
                code="LimitMissing",
                field=field_of(container, resource, section=_REQUESTS),
                value=shown(requests[resource]),
                limit=f"{resource} has request {shown(requests[resource])} and no limit",
                remedy="write it in resources.limits",
            )
        )
    return None


def number(found: Given, *, allowed: str = "") -> quantity.Quantity:
    """Return the exact number; raises `RefusedError` where there is none or a negative one."""
    try:
        exact = quantity.parse(_text(found.raw))
    except quantity.QuantityError as error:
        remedy = _without_percent_sign(found)
        raise _refused(found, "AmountUnreadable", allowed or error.why, remedy) from error
    if exact.nanos < 0:
        limit = allowed or f"{found.resource} must not be negative"
        raise _refused(found, "AmountOutOfRange", limit)
    return exact


def whole(
    found: Given,
    *,
    at_most: int,
    at_least: int = 0,
    allowed: str = "",
    hint: Callable[[Given], str] | None = None,
) -> int:
    """Return a number of devices, percent or the like; raises `RefusedError` out of bounds.

    *allowed* is for bounds that are narrower in words; *hint* gives a fraction its remedy.
    """
    plain = _digits(found)
    if plain is not None and at_least <= plain <= at_most:
        return plain
    allowed = allowed or f"{found.resource} must be {at_least}..{at_most}"
    exact = number(found, allowed=allowed)
    if not exact.is_whole():
        limit = f"{found.resource} must be a whole number"
        raise _refused(found, "AmountNotWhole", limit, hint(found) if hint else "")
    if not at_least <= exact.value() <= at_most:
        raise _refused(found, "AmountOutOfRange", allowed)
    return exact.value()


def memory(found: Given, *, factor: int = 1) -> Memory:
    """Return a size of memory; raises `RefusedError`.

    A bare number counts *factor* MiB each; with Ki, Mi, Gi and so on it is bytes, whatever the
    factor is.
    """
    factor = max(1, factor)
    plain = _digits(found)
    if plain is not None and plain * factor <= MEMORY_LIMIT_MIB:
        return Memory(mib=plain * factor, units=plain)
    exact = number(found)
    if _text(found.raw).endswith("i"):
        return _bytes(found, exact, factor)
    if not exact.is_whole():
        raise _refused(found, "AmountNotWhole", f"{found.resource} must be a whole number of MiB")
    mib = exact.value() * factor
    if mib > MEMORY_LIMIT_MIB:
        raise _too_much(found, mib, _meant(found, exact.value(), factor))
    return Memory(mib=mib, units=exact.value())


def is_plain(found: Given) -> bool:
    """Tell whether HAMi's scheduler reads the text as this module does.

    A binary suffix is no bytes to it, and a decimal point or a negative exponent makes it see no
    request at all.
    """
    return _digits(found) is not None or _PLAIN.fullmatch(_text(found.raw)) is not None


def fraction_percent(found: Given) -> int | None:
    """Return 50 for half a device: the percent that a number between 0 and 1 stands for."""
    nanos = quantity.parse(_text(found.raw)).nanos
    if not 0 < nanos < 10**9:
        return None
    return max(1, nanos * 100 // 10**9)


def malformed(container: Container) -> Iterable[Refusal]:
    """Yield what keeps the resources of *container* from being read at all."""
    resources = container.raw.get("resources")
    if resources is None:
        return
    if not isinstance(resources, dict):
        yield _malformed(container, "", resources)
        return
    for section in (_LIMITS, _REQUESTS):
        found = resources.get(section)
        if found is not None and not isinstance(found, dict):
            yield _malformed(container, f".{section}", found)


def _malformed(container: Container, below: str, value: Any) -> Refusal:
    where = field_of(container, "").removesuffix(".limits[]")
    return Refusal(
        code="MalformedResources",
        field=f"{where}{below}",
        value=shown(value),
        limit="must be an object",
    )


def _sections(container: Container) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return limits and requests; what is no object is empty."""
    resources = container.raw.get("resources")
    # JSON is read into a dict; to ask for any Mapping takes several times as long.
    if not isinstance(resources, dict):
        return {}, {}
    limits, requests = resources.get(_LIMITS), resources.get(_REQUESTS)
    return (
        limits if isinstance(limits, dict) else {},
        requests if isinstance(requests, dict) else {},
    )


def _text(raw: Any) -> str:
    """Return the text of a quantity; JSON numbers count, as they do for Kubernetes."""
    if isinstance(raw, str):
        return raw
    if isinstance(raw, float) or (isinstance(raw, int) and not isinstance(raw, bool)):
        # An integer too long for Python to write is no quantity either.
        return str(raw) if abs(raw) < 1 << 70 else "9" * 65
    return ""


def _digits(found: Given) -> int | None:
    """Return what nearly everybody writes, a few digits; `None` for all else."""
    raw = found.raw
    if type(raw) is str and len(raw) <= _DIGITS_MAX and raw.isascii() and raw.isdecimal():
        return int(raw)
    return None


def _equal(found: Given, other: Any) -> bool:
    if found.raw == other and type(found.raw) is type(other):
        return True
    try:
        return quantity.parse(_text(found.raw)) == quantity.parse(_text(other))
    except quantity.QuantityError:
        return False


def _bytes(found: Given, exact: quantity.Quantity, factor: int) -> Memory:
    mib, rest = divmod(exact.nanos, _MIB * 10**9)
    if rest:
        raise _refused(found, "MemoryNotWholeMiB", "not a whole MiB")
    if mib > MEMORY_LIMIT_MIB:
        raise _too_much(found, mib, "")
    if mib % factor:
        raise _refused(found, "MemoryNotWholeUnit", f"{mib} MiB is not a multiple of {factor} MiB")
    said = f"{found.resource}: {_text(found.raw)} read as {mib} MiB"
    warning = Refusal(
        code="MemoryReadAsBytes", field=found.field, value=_text(found.raw), limit=said
    )
    return Memory(mib=mib, units=mib // factor, warning=warning if mib else None)


def _too_much(found: Given, mib: int, remedy: str) -> RefusedError:
    limit = f"memory request {mib} MiB exceeds the limit {MEMORY_LIMIT_MIB} MiB"
    return _refused(found, "MemoryTooLarge", limit, remedy)


def _meant(found: Given, written: int, factor: int) -> str:
    """Return what someone meant who wrote bytes, or a decimal suffix as if of bytes."""
    text = _text(found.raw)
    digits, suffix = text[:-1], text[-1:]
    if suffix in _SHIFTS and digits.isdigit():
        mib, in_bytes = int(digits) << _SHIFTS[suffix], f"{text}i"
    else:
        mib, rest = divmod(written, _MIB)
        in_bytes = "" if rest else f"{mib}Mi"
    if not in_bytes or not 0 < mib <= MEMORY_LIMIT_MIB or mib % factor:
        return ""
    return f"write {in_bytes} or {mib // factor}"


def _without_percent_sign(found: Given) -> str:
    text = _text(found.raw).strip()
    digits = text.removesuffix("%").strip()
    short = text != digits and digits.isascii() and digits.isdigit() and len(digits) <= 3
    return f"write {int(digits)} without the percent sign" if short else ""


def _refused(found: Given, code: str, limit: str, remedy: str = "") -> RefusedError:
    return RefusedError(
        Refusal(code=code, field=found.field, value=shown(found.raw), limit=limit, remedy=remedy)
    )
