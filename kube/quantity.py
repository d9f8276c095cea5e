"""Quantities such as `3000Mi`, `4k` or `500m`, read strictly and kept exactly.

The grammar is that of apimachinery's `resource.Quantity`, without what Go accepts by accident
(`.`, a lone sign): the parsers of Python packages take `1K`, `NaN`, `1_000` and digits of other
scripts, so none of them can guard an input. Numbers are integers of 1e-9, the finest that
Kubernetes keeps; finer ones are rounded away from zero as it does. Where Go caps a number above
2**63-1 in silence, it is refused here.

The API server stores quantities in a canonical text: 4000 comes back as `4k`.
"""

import re
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

_NANO: Final = 10**9
_MAX: Final = 2**63 - 1
_TEXT_MAX = 64
_DECIMAL: Final = {
    "n": -9,
    "u": -6,
    "m": -3,
    "": 0,
    "k": 3,
    "M": 6,
    "G": 9,
    "T": 12,
    "P": 15,
    "E": 18,
}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_BY_EXPONENT: Final = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_GRAMMAR: Final = re.compile(
    r"([+-]?)(?:([0-9]+)(?:\.([0-9]*))?|\.([0-9]+))"
    r"(?:([eE][+-]?[0-9]+)|([KMGTPE]i|[numkMGTPE])?)"
)


class QuantityError(ValueError):
    """A text that is no quantity; says which text and why."""

    def __init__(self, text: str, why: str) -> None:
        super().__init__(text, why)
        self.text = text
        self.why = why

    def __str__(self) -> str:
        return f"`{self.text[:_TEXT_MAX]}` is no quantity: {self.why}"


class Format(Enum):
    """How the author wrote the suffix; the canonical text keeps to it."""

    DECIMAL_SI = "DecimalSI"
    BINARY_SI = "BinarySI"
    DECIMAL_EXPONENT = "DecimalExponent"


@dataclass(frozen=True, slots=True, order=True)
class Quantity:
    """An exact number; compares by its value, whatever its format."""

    nanos: int
    """The number times 10**9."""
    format: Format = field(default=Format.DECIMAL_SI, compare=False)

    def value(self) -> int:
        """Return the whole number, rounded away from zero as Go's `Value()` does."""
        magnitude = -(-abs(self.nanos) // _NANO)
        return magnitude if self.nanos >= 0 else -magnitude

    def is_whole(self) -> bool:
        """Tell whether `value()` loses nothing."""
        return self.nanos % _NANO == 0

    def canonical(self) -> str:
        """Return the text as which the API server stores this number."""
        if self.nanos == 0:
            return "0"
        sign = "-" if self.nanos < 0 else ""
        small = abs(self.nanos) < 1024 * _NANO
        if self.format is Format.BINARY_SI and self.is_whole() and not small:
            return sign + _canonical_binary(abs(self.nanos) // _NANO)
        return sign + _canonical_decimal(
            abs(self.nanos), with_exponent=self.format is Format.DECIMAL_EXPONENT
        )

    def __str__(self) -> str:
        return self.canonical()

    def __add__(self, other: "Quantity") -> "Quantity":
        return Quantity(self.nanos + other.nanos, self._format_with(other))

    def __sub__(self, other: "Quantity") -> "Quantity":
        return Quantity(self.nanos - other.nanos, self._format_with(other))

    def __mul__(self, factor: int) -> "Quantity":
        return Quantity(self.nanos * factor, self.format)

    def __neg__(self) -> "Quantity":
        return Quantity(-self.nanos, self.format)

    def _format_with(self, other: "Quantity") -> Format:
        return self.format if self.nanos else other.format


def whole(number: int, *, binary: bool = False) -> Quantity:
    """Return *number* as a quantity, written in powers of 1024 when *binary*."""
    return Quantity(number * _NANO, Format.BINARY_SI if binary else Format.DECIMAL_SI)


def parse(text: str) -> Quantity:
    """Return the quantity that *text* says; raises `QuantityError`."""
    match = _GRAMMAR.fullmatch(text) if len(text) <= _TEXT_MAX else None
    if match is None:
        raise QuantityError(text, _why_not(text))
    sign, whole_digits, fraction, bare_fraction, exponent_text, suffix = match.groups()
    decimals = fraction or bare_fraction or ""
    digits = int((whole_digits or "") + decimals)
    if exponent_text:
        kind, exponent, shift = Format.DECIMAL_EXPONENT, int(exponent_text[1:]), 0
    elif suffix in _BINARY:
        kind, exponent, shift = Format.BINARY_SI, 0, _BINARY[suffix]
    else:
        kind, exponent, shift = Format.DECIMAL_SI, _DECIMAL[suffix or ""], 0
    nanos = _scaled(digits << shift, exponent - len(decimals) + 9)
    if nanos > _MAX * _NANO:
        raise QuantityError(text, f"the largest is {_MAX}")
    if kind is Format.BINARY_SI and 0 < nanos < _NANO:
        kind = Format.DECIMAL_SI
    return Quantity(-nanos if sign == "-" else nanos, kind)


def _scaled(digits: int, exponent: int) -> int:
    """Return `digits * 10**exponent` rounded up, without building an absurd power of ten."""
    power: int = 10 ** min(abs(exponent), 2 * _TEXT_MAX)
    return digits * power if exponent >= 0 else -(-digits // power)


def _canonical_binary(number: int) -> str:
    suffix = ""
    for candidate, shift in _BINARY.items():
        if number % (1 << shift):
            break
        suffix = candidate
    return f"{number >> _BINARY.get(suffix, 0)}{suffix}"


def _canonical_decimal(nanos: int, *, with_exponent: bool) -> str:
    exponent = -9
    while nanos % 1000 == 0 and (with_exponent or exponent < _DECIMAL["E"]):
        nanos //= 1000
        exponent += 3
    if exponent == 0:
        return str(nanos)
    return f"{nanos}e{exponent}" if with_exponent else f"{nanos}{_DECIMAL_BY_EXPONENT[exponent]}"


def _why_not(text: str) -> str:
    if not text:
        return "it is empty"
    if len(text) > _TEXT_MAX:
        return f"it is longer than {_TEXT_MAX} characters"
    if any(character.isspace() for character in text):
        return "it holds blanks"
    if re.fullmatch(r"[+-]?[0-9.]+K", text):
        return "a thousand is a small `k`, 1024 is `Ki`"
    if not re.match(r"[+-]?\.?[0-9]", text):
        return "it does not begin with a number"
    return "allowed is a decimal number and one of " + ", ".join(
        [*filter(None, _DECIMAL), *_BINARY, "e<exponent>"]
    )
