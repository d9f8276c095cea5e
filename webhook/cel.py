"""Device selectors as CEL text, built from checked values only.

Annotations are whatever a user wrote, and a quote pasted into an expression would end the text and
begin code. So nothing is pasted: identifiers must have their form, numbers are integers, and every
other text goes through `literal`, whose result is ASCII and reads back as that text.

An attribute that is missing is an error in CEL that stops the pod on all nodes. Every device of
ours has the attributes used here but `fillLevel`, which is asked for before it is read; other
drivers' devices are left out by the classes, whose selectors come first.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from gpu.names import ATTRIBUTE_FILL_LEVEL, CAPACITY_MEMORY, CAPACITY_SHARES, DRIVER

EXPRESSION_MAX_BYTES: Final = 10 * 1024
"""What the API server takes as one expression (resource/v1: `CELDeviceSelector`)."""
UUID_PATTERN: Final = r"^(GPU|MIG)-[0-9A-Za-z-]{1,64}$"

_UUID: Final = re.compile(UUID_PATTERN.rstrip("$") + r"\Z", re.ASCII)
_OWN: Final = f'device.attributes["{DRIVER}"]'
_CAPACITY: Final = f'device.capacity["{DRIVER}"]'
_FILL_IS_KNOWN: Final = f'"{ATTRIBUTE_FILL_LEVEL}" in {_OWN}'
_FILL: Final = f"{_OWN}.{ATTRIBUTE_FILL_LEVEL}"
_MODEL: Final = f"{_OWN}.productName"
_PREFIX: Final = "nvidia-"
"""What HAMi puts before the model of a GPU, unless that says NVIDIA already."""
_ENDINGS: Final = tuple(_PREFIX[start:] for start in range(len(_PREFIX)))
_FIRST_PRINTABLE: Final = 0x20
_LAST_PRINTABLE: Final = 0x7E
_SURROGATES: Final = range(0xD800, 0xE000)
_REPLACEMENT: Final = 0xFFFD


class ExpressionError(ValueError):
    """A value that no expression can be made of."""


def literal(text: str) -> str:
    """Return *text* as a CEL string; half of a surrogate pair becomes U+FFFD, as in Go's JSON."""
    plain = text.isascii() and text.isprintable() and '"' not in text and "\\" not in text
    said = text if plain else "".join(_escaped(ord(character)) for character in text)
    return f'"{said}"'


def type_among(words: Iterable[str]) -> str:
    """Return the test whether HAMi's type of a GPU contains any of *words*, in whatever case."""
    return _types_test(tuple(words))


def type_not_among(words: Iterable[str]) -> str:
    """Return the opposite of `type_among`."""
    return _checked(f"!({type_among(words)})")


def uuid_among(uuids: Iterable[str], *, or_parent: bool = False) -> str:
    """Return the test whether a device is one of *uuids*, or with *or_parent* a part of one."""
    listed = "[" + ", ".join(literal(_checked_uuid(uuid)) for uuid in uuids) + "]"
    test = f"{_OWN}.uuid in {listed}"
    return _checked(f"{test} || {_OWN}.parentUUID in {listed}" if or_parent else test)


def uuid_not_among(uuids: Iterable[str], *, or_parent: bool = False) -> str:
    """Return the opposite of `uuid_among`."""
    return _checked(f"!({uuid_among(uuids, or_parent=or_parent)})")


def total_memory_is(memory_mib: int) -> str:
    """Return the test for devices with exactly so much memory in all."""
    return f'{_CAPACITY}.{CAPACITY_MEMORY}.compareTo(quantity("{memory_mib:d}Mi")) == 0'


def total_memory_at_least(memory_mib: int) -> str:
    """Return the test for devices with so much memory in all, or more."""
    return f'{_CAPACITY}.{CAPACITY_MEMORY}.compareTo(quantity("{memory_mib:d}Mi")) >= 0'


def shares_are(shares: int) -> str:
    """Return the test for GPUs that offer exactly so many shares."""
    return f'{_CAPACITY}.{CAPACITY_SHARES}.compareTo(quantity("{shares:d}")) == 0'


def filled_at_least(level: int) -> str:
    """Return the test for GPUs known to be filled to *level* or more."""
    return f"{_FILL_IS_KNOWN} && {_FILL} >= {level:d}"


def filled_below(level: int) -> str:
    """Return the test for GPUs known to be filled less than *level*."""
    return f"{_FILL_IS_KNOWN} && {_FILL} < {level:d}"


def is_uuid(text: str) -> bool:
    """Tell whether *text* has the form of a UUID of a GPU or MIG device."""
    return _UUID.match(text) is not None


@lru_cache(maxsize=64)
def _types_test(words: tuple[str, ...]) -> str:
    """Return `type_among`; few words are in use, and what is too long is an error and not kept."""
    return _checked(" || ".join(_type_contains(_ascii_lower(word)) for word in words))


def _escaped(code: int) -> str:
    if code in _SURROGATES:
        code = _REPLACEMENT
    if chr(code) in '"\\':
        return "\\" + chr(code)
    if _FIRST_PRINTABLE <= code <= _LAST_PRINTABLE:
        return chr(code)
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def _ascii_lower(word: str) -> str:
    if word.isascii():
        return word.lower()
    # `lowerAscii` leaves other letters alone.
    return "".join(each.lower() if each.isascii() else each for each in word)


def _type_contains(word: str) -> str:
    if not word:
        message = "an empty word is part of every type"
        raise ExpressionError(message)
    text = literal(word)
    plain = f"{_MODEL}.lowerAscii().contains({text})"
    if not _reaches_prefix(word):
        return plain
    prefixed = f'("{_PREFIX}" + {_MODEL}.lowerAscii()).contains({text})'
    return f'{plain} || (!{_MODEL}.startsWith("NVIDIA") && {prefixed})'


def _reaches_prefix(word: str) -> bool:
    """Tell whether *word* can match where the prefix is and the model alone is not enough."""
    return word in _PREFIX or word.startswith(_ENDINGS)


def _checked_uuid(uuid: str) -> str:
    if not is_uuid(uuid):
        message = f"{uuid!r} does not match {UUID_PATTERN}"
        raise ExpressionError(message)
    return uuid


def _checked(expression: str) -> str:
    if not expression:
        message = "there is nothing to compare with"
        raise ExpressionError(message)
    if len(expression) > EXPRESSION_MAX_BYTES:
        message = f"its selector has {len(expression)} bytes, the limit is {EXPRESSION_MAX_BYTES}"
        raise ExpressionError(message)
    return expression
