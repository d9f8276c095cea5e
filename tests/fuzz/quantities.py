"""Quantities: the texts by which memory and cores of a share come from the scheduler.

The expectation is computed by fractions from the text's own parts, without the reader's steps.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from random import Random
from typing import Final

from kube.quantity import Quantity, QuantityError, parse
from tests.fuzz.mutation import spoiled_string
from tests.fuzz.running import expect

_SUFFIXES: Final = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 10**3),
    "": Fraction(1),
    **{letter: Fraction(1000**power) for power, letter in enumerate("kMGTPE", start=1)},
    **{f"{letter}i": Fraction(1024**power) for power, letter in enumerate("KMGTPE", start=1)},
}
_VALID: Final = ("0", "1", "1000Mi", "100", "1.5Gi", "500m", "3e3", "8Ei", ".5k", "+7", "-2", "1.")
_NUMBER: Final = re.compile(r"([+-]?)(\d*)\.?(\d*)", re.ASCII)


def expected(text: str) -> Fraction | None:
    """Return the number that *text* says, or `None` if it is no quantity."""
    if len(text) > 64:
        return None
    suffix = next((each for each in sorted(_SUFFIXES, key=len)[::-1] if text.endswith(each)), "")
    number, factor = text.removesuffix(suffix), _SUFFIXES[suffix]
    mantissa, exponent = (
        re.split("[eE]", number, maxsplit=1) if "e" in number.lower() else (number, "")
    )
    found = _NUMBER.fullmatch(mantissa)
    if found is None or not (found[2] or found[3]):
        return None
    if number != mantissa:
        if suffix or not re.fullmatch(r"[+-]?\d+", exponent, re.ASCII):
            return None
        # Beyond this the answer is nothing or far too much, whatever the digits.
        power = max(-200, min(200, int(exponent)))
        factor = Fraction(10**power) if power >= 0 else Fraction(1, 10**-power)
    value = Fraction(int(found[2] + found[3] or "0"), 10 ** len(found[3])) * factor
    return -value if found[1] == "-" else value


@dataclass(frozen=True, slots=True)
class Quantities:
    """Texts near the grammar of quantities."""

    read: Callable[[str], Quantity] = parse
    name: str = "quantity"
    weight: int = 24

    def make(self, rng: Random) -> str:
        """Return a text."""
        if rng.random() < 0.5:
            digits = "".join(rng.choices("0123456789.", k=rng.choice((1, 2, 3, 5, 19, 20, 40, 66))))
            sign = rng.choice(("", "", "", "-", "+"))
            tail = rng.choice(
                (*_SUFFIXES, "e3", "E-2", "e999999999999", "e-99999", "K", "mi", "ki")
            )
            text = f"{sign}{digits}{tail}"
        else:
            text = rng.choice(_VALID)
        return spoiled_string(rng, text) if rng.random() < 0.3 else text

    def check(self, sample: str) -> bool:
        """Compare with fractions, and the canonical text with itself."""
        number = expected(sample)
        try:
            found = self.read(sample)
        except QuantityError:
            expect(number is None or abs(number) > 2**63 - 1, "a quantity was refused")
            return False
        expect(number is not None, f"no quantity was taken: {found.nanos}")
        nanos = ceil(abs(Fraction(number or 0)) * 10**9)
        expect(abs(found.nanos) == nanos, f"another number: {found.nanos} and not {nanos}")
        expect((found.nanos < 0) == ((number or 0) < 0), "another sign")
        expect(found.nanos != 0 or number == 0, "a silent zero")
        expect(self.read(sample) == found, "another answer the second time")
        expect(self.read(found.canonical()) == found, f"another number: as {found.canonical()}")
        return True

    def close(self) -> None:
        """Do nothing: nothing is held."""
