"""What the driver's XID errors say about a GPU: data, and an administrator's changes to it.

An XID that a program can cause by a mistake of its own says nothing against the GPU, and would let
one tenant take it from all others; these are the ones that HAMi's and NVIDIA's device plugins pass
over, and 137, the same over NVLink. An error that the GPU contained or corrected is not fatal:
work that it did not hit goes on, and new work may start (NVIDIA: GPU Memory Error Management).
Some report no error at all. Everything else counts against the GPU, above all what is not listed
here: a driver may be newer than this table. Meanings follow NVIDIA's Xid catalog.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Self

RECOVERY_ACTION_CHANGED: Final = 154
"""Announces that the driver's advice for a GPU changed, for the worse or the better."""

APPLICATION_ERRORS: Final = frozenset({13, 31, 43, 45, 68, 109, 137})
CONTAINED_ERRORS: Final = frozenset({63, 92, 94, 121})
REPORTS: Final = frozenset({106, 107, RECOVERY_ACTION_CHANGED})
IGNORED: Final = APPLICATION_ERRORS | CONTAINED_ERRORS | REPORTS

ALL: Final = "all"
_XID_MAX: Final = 65535
_DIGITS_MAX: Final = 5
_UNKNOWN: Final = "an error that has no description here"

_MEANINGS: Final[dict[int, str]] = {
    8: "the GPU stopped processing",
    11: "a command stream was invalid",
    13: "a program caused an exception in the graphics engine",
    25: "a command stream was illegal",
    31: "a program touched memory that is not its own",
    32: "a command stream was corrupted on its way to the GPU",
    43: "a program was stopped by an error of its own",
    44: "the graphics engine failed during a context switch",
    45: "a program's work was removed from the GPU",
    46: "the GPU stopped processing",
    48: "an ECC error in memory could not be corrected",
    54: "the board has no auxiliary power",
    61: "an internal micro-controller stopped",
    62: "an internal micro-controller halted",
    63: "a memory row or page was set aside",
    64: "a memory row or page could not be set aside",
    68: "the video decoder reported an exception",
    69: "the graphics engine rejected a command",
    74: "an NVLink connection failed",
    78: "a virtual GPU could not be started",
    79: "the GPU has fallen off the bus",
    80: "data reached the GPU corrupted",
    92: "many single-bit ECC errors were corrected",
    94: "a memory error was contained in one program",
    95: "a memory error was not contained",
    106: "a test message",
    107: "a test message",
    109: "a context switch took too long",
    110: "a security fault",
    119: "the GPU's system processor did not answer in time",
    120: "the GPU's system processor reported an error",
    121: "errors on the link to the CPU were corrected",
    136: "the training of a link failed",
    137: "a program touched memory over NVLink that is not its own",
    140: "an ECC error could not be recovered from",
    143: "the GPU could not be initialised",
    RECOVERY_ACTION_CHANGED: "the driver changed its advice for the GPU",
    155: "an NVLink connection went down",
    156: "a defective part of the GPU was retired",
    157: "a defective part of the GPU could not be retired",
    158: "the GPU stopped answering",
    167: "a transfer over PCI Express timed out",
    168: "the GPU has less memory than it should",
    171: "an ECC error in DRAM could not be corrected",
    172: "an ECC error in SRAM could not be corrected",
}


def meaning(xid: int) -> str:
    """Return in a few words what *xid* means."""
    return _MEANINGS.get(xid, _UNKNOWN)


@dataclass(frozen=True, slots=True)
class XidSet:
    """Some XIDs, or all there are."""

    numbers: frozenset[int] = frozenset()
    everything: bool = False

    def __contains__(self, xid: object) -> bool:
        return self.everything or xid in self.numbers

    @classmethod
    def parse(cls, words: Iterable[str], *, words_for_all: Iterable[str] = (ALL,)) -> Self:
        """Return what *words* name: numbers, or one of *words_for_all* by itself.

        `ValueError` names the word that is neither.
        """
        given = tuple(words)
        every = frozenset(words_for_all)
        if len(given) == 1 and given[0] in every:
            return cls(everything=True)
        return cls(frozenset(_number(word, every) for word in given))


@dataclass(frozen=True, slots=True, kw_only=True)
class XidPolicy:
    """The table above as an administrator has changed it."""

    ignored: XidSet = XidSet()
    """Ignored besides those that always are."""
    critical: XidSet = XidSet()
    """Critical whatever else is said."""

    def is_critical(self, xid: int) -> bool:
        """Tell whether a GPU with *xid* should get no new work."""
        if xid in self.critical:
            return True
        return xid not in IGNORED and xid not in self.ignored

    @property
    def is_off(self) -> bool:
        """Tell whether no XID at all is critical."""
        return self.ignored.everything and self.critical == XidSet()


def _number(word: str, every: frozenset[str]) -> int:
    is_short_number = word.isascii() and word.isdecimal() and len(word) <= _DIGITS_MAX
    if is_short_number and 0 < int(word) <= _XID_MAX:
        return int(word)
    if word in every:
        message = f"`{word}` stands by itself: give no numbers beside it"
        raise ValueError(message)
    alone = "".join(f", or `{each}`" for each in sorted(every))
    message = f"`{word}` is no XID: give numbers from 1 to {_XID_MAX}{alone}"
    raise ValueError(message)
