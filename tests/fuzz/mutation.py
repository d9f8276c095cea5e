"""Spoils valid documents: the same random numbers always spoil in the same way.

Random bytes are refused by the first check of any reader, so most of what is made here is nearly
right: one value of another type, a key gone, a number too large, a bit turned. Documents are
changed as values, as text and as bytes, because each reaches other code. A change copies what it
touches and shares the rest, so a document is never to be changed in place.
"""

import json
import math
import re
from collections.abc import Callable
from random import Random
from typing import Any, Final

import yaml

Steps = tuple[str | int, ...]

NUMBERS: Final[tuple[Any, ...]] = (
    *(0, 1, -1, 2, 99, 100, 101, 2**31, 2**32, 2**53, 2**63 - 1, 2**63, 2**64, -(2**63), 10**40),
    *(0.0, -0.0, 0.5, 1.0, 1e300, 5e-324, math.inf, -math.inf, math.nan),
)
TEXTS: Final = (
    *("", " ", "0", "-1", "00", "1e3", "1Mi", "NaN", "null", "true", "\x00", "a\x00b", "\n"),
    *("\ud800", "a\udfffb", "\u202e", "\ufeff", "\uff11\uff12", "\u0130", "\u017f", "K"),
    *("/", "..", "../../etc/passwd", '"', "\\", "=", "a" * 64, "a" * 300, "%00"),
)
SCALARS: Final[tuple[Any, ...]] = (None, True, False, *NUMBERS, *TEXTS)
_DEPTHS: Final = (40, 180, 210, 700, 1500)
_TEXT_DEPTHS: Final = (*_DEPTHS, 3000, 100_000)
_TOKENS: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|-?[0-9][0-9.eE+-]*|true|false|null')
_RAW: Final = (
    *(b"NaN", b"Infinity", b"-Infinity", b"1e999", b"-1e999", b"-0", b"-0.0", b"1.0", b"01", b"+1"),
    *(b"1e-400", b"1E2", b"9" * 30, b"9" * 4400, b"0.1", b'"\\ud800"', b'"\\udc00\\ud800"'),
    *(b'"\\u0000"', b'"\xff"', b'"\xed\xa0\x80"', b'"', b"'a'", b"", b"{}", b"[]", b"[[]]", b"nul"),
    *(b'{"":0}', b"//", b"\xef\xbb\xbf1", b'"\\x41"', b"0x10", b"1_000", b"\x00", b'"a\nb"'),
)


def nested(depth: int) -> Any:
    """Return a list in a list in a list."""
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


def paths(document: Any) -> list[Steps]:
    """Return the way to every value in *document*, the whole first; not into the very deep."""
    found: list[Steps] = [()]
    open_ones: list[tuple[Steps, Any]] = [((), document)]
    while open_ones:
        path, value = open_ones.pop()
        if len(path) > 20:
            continue
        inside = _entries(value)
        for key, entry in inside:
            found.append((*path, key))
            open_ones.append(((*path, key), entry))
    return found


def at(document: Any, path: Steps) -> Any:
    """Return the value at *path*."""
    for step in path:
        document = document[step]
    return document


def replaced(document: Any, path: Steps, value: Any) -> Any:
    """Return *document* with *value* at *path*; the last step may be a new key."""
    if not path:
        return value
    step, *rest = path
    copy: Any = dict(document) if isinstance(document, dict) else list(document)
    copy[step] = replaced(copy[step], tuple(rest), value) if rest else value
    return copy


def removed(document: Any, path: Steps) -> Any:
    """Return *document* without what is at *path*, which is not the whole."""
    parent = at(document, path[:-1])
    copy: Any = dict(parent) if isinstance(parent, dict) else list(parent)
    del copy[path[-1]]
    return replaced(document, path[:-1], copy)


def spoiled(rng: Random, document: Any, *, donor: Any = None, most: int = 3) -> Any:
    """Return *document* after up to *most* changes, now and then none."""
    for _ in range(rng.randint(0, most)):
        path = rng.choice(paths(document))
        document = rng.choice(_CHANGES)(rng, document, path, donor)
    return document


def as_text(rng: Random, document: Any) -> bytes:
    """Return *document* as JSON, as one of the ways to write it."""
    ascii_only = rng.random() < 0.8
    try:
        text = json.dumps(
            document, ensure_ascii=ascii_only, indent=rng.choice((None, None, None, 1))
        )
    except RecursionError:
        return b"[" * 1500 + b"]" * 1500
    return text.encode("utf-8", "surrogatepass")


def spoiled_text(rng: Random, document: Any, *, donor: Any = None) -> bytes:
    """Return JSON of *document*, spoiled as a value, as text, as bytes, or not at all."""
    text = as_text(rng, spoiled(rng, document, donor=donor))
    luck = rng.random()
    if luck < 0.25:
        text = _raw_token(rng, text)
    if 0.2 < luck < 0.35:
        text = _double_key(rng, text)
    if luck > 0.85:
        text = spoiled_bytes(rng, text, most=2)
    return text


def spoiled_yaml(rng: Random, document: Any) -> str:
    """Return YAML of *document*, or JSON, which is YAML too, now and then spoiled as bytes."""
    try:
        text = json.dumps(document) if rng.random() < 0.2 else yaml.safe_dump(document)
    except (yaml.YAMLError, RecursionError):
        return "[" * 2000
    if rng.random() < 0.3:
        return spoiled_bytes(rng, text.encode("utf-8", "surrogatepass")).decode(errors="replace")
    return text


def spoiled_bytes(rng: Random, data: bytes, *, donor: bytes = b"", most: int = 3) -> bytes:
    """Return *data* after one to *most* changes of bits, bytes and pieces."""
    for _ in range(rng.randint(1, most)):
        data = rng.choice(_BYTE_CHANGES)(rng, data, donor or data)
    return data


def spoiled_string(rng: Random, text: str) -> str:
    """Return *text* with a character or piece changed."""
    if not text or rng.random() < 0.2:
        return rng.choice(TEXTS)
    place = rng.randrange(len(text))
    middle = rng.choice(
        ("", text[place] * 2, text[place].swapcase(), chr(rng.randrange(128)), rng.choice(TEXTS))
    )
    return text[:place] + middle + text[place + 1 :]


def _entries(value: Any) -> list[tuple[str | int, Any]]:
    if isinstance(value, dict):
        return list(value.items())
    return list(enumerate(value)) if isinstance(value, list) else []


def _other_scalar(rng: Random, document: Any, path: Steps, _donor: Any) -> Any:
    return replaced(document, path, rng.choice(SCALARS))


def _other_number(rng: Random, document: Any, path: Steps, _donor: Any) -> Any:
    value = at(document, path)
    if isinstance(value, str):
        return replaced(document, path, spoiled_string(rng, value))
    if isinstance(value, int):
        near = (value + 1, value - 1, -value, value * 2**20, float(value), str(value))
        return replaced(document, path, rng.choice((*near, *NUMBERS)))
    return replaced(document, path, rng.choice(NUMBERS))


def _gone(rng: Random, document: Any, path: Steps, _donor: Any) -> Any:
    return removed(document, path) if path else _other_scalar(rng, document, path, None)


def _wrapped(rng: Random, document: Any, path: Steps, _donor: Any) -> Any:
    value = at(document, path)
    key = rng.choice(("value", "", "0"))
    return replaced(document, path, rng.choice(([value], {key: value}, [value, value])))


def _unwrapped(rng: Random, document: Any, path: Steps, _donor: Any) -> Any:
    inside = _entries(at(document, path))
    return replaced(document, path, rng.choice(inside)[1]) if inside else document


def _emptied(rng: Random, document: Any, path: Steps, _donor: Any) -> Any:
    return replaced(document, path, rng.choice(({}, [], "", None, [None], [{}], {"": None})))


def _moved(rng: Random, document: Any, path: Steps, donor: Any) -> Any:
    source = document if donor is None or rng.random() < 0.5 else donor
    return replaced(document, path, at(source, rng.choice(paths(source))))


def _new_key(rng: Random, document: Any, path: Steps, _donor: Any) -> Any:
    value = at(document, path)
    if not isinstance(value, dict):
        return _doubled(rng, document, path, None)
    known = rng.choice([*value, ""])
    spelled = (known.upper(), known + " ", known + "s", f"x-{known}", known.swapcase(), "\x00")
    new = value.get(known, rng.choice(SCALARS))
    return replaced(document, path, value | {rng.choice(spelled): new})


def _doubled(rng: Random, document: Any, path: Steps, _donor: Any) -> Any:
    value = at(document, path)
    if not isinstance(value, list) or not value:
        return document
    times = rng.choice((1, 1, 2, 40))
    return replaced(document, path, [*value, *[rng.choice(value)] * times])


def _deep(rng: Random, document: Any, path: Steps, _donor: Any) -> Any:
    # Rare, because such a document takes long to write and to read.
    if rng.random() < 0.9:
        return _gone(rng, document, path, None)
    return replaced(document, path, nested(rng.choice(_DEPTHS)))


_Change = Callable[[Random, Any, Steps, Any], Any]
_CHANGES: Final[tuple[_Change, ...]] = (
    *(_other_scalar, _other_scalar, _other_number, _other_number, _other_number, _gone, _gone),
    *(_wrapped, _unwrapped, _emptied, _moved, _moved, _new_key, _doubled, _deep),
)


def _raw_token(rng: Random, text: bytes) -> bytes:
    """Put something in the place of a word that no value could be written as."""
    found = list(_TOKENS.finditer(text))
    if not found:
        return rng.choice(_RAW)
    token = rng.choice(found)
    raw = rng.choice(_RAW)
    if rng.random() < 0.03:
        depth = rng.choice(_TEXT_DEPTHS)
        opening, closing = rng.choice(((b"[", b"]"), (b'{"a":', b"}")))
        raw = opening * depth + b"1" + closing * depth
    return text[: token.start()] + raw + text[token.end() :]


def _double_key(rng: Random, text: bytes) -> bytes:
    """Give a key of an object a second value before or after its own."""
    found = [each for each in _TOKENS.finditer(text) if text[each.end() :].lstrip()[:1] == b":"]
    if not found:
        return text
    token = rng.choice(found)
    entry = token.group() + b":" + rng.choice((b"null", b"0", b"1", b'"x"', b"[]", b"{}")) + b","
    return text[: token.start()] + entry + text[token.start() :]


def _bit(rng: Random, data: bytes, _donor: bytes) -> bytes:
    if not data:
        return b"\x80"
    place = rng.randrange(len(data))
    return data[:place] + bytes([data[place] ^ (1 << rng.randrange(8))]) + data[place + 1 :]


def _cut(rng: Random, data: bytes, _donor: bytes) -> bytes:
    return data[: rng.randint(0, len(data))]


def _piece_gone(rng: Random, data: bytes, _donor: bytes) -> bytes:
    start = rng.randint(0, len(data))
    return data[:start] + data[start + rng.choice((1, 2, 8, 64)) :]


def _piece_twice(rng: Random, data: bytes, _donor: bytes) -> bytes:
    start = rng.randint(0, len(data))
    end = start + rng.choice((1, 2, 8, 64))
    return data[:end] + data[start:]


def _noise(rng: Random, data: bytes, _donor: bytes) -> bytes:
    start = rng.randint(0, len(data))
    filling = rng.choice((rng.randbytes(rng.choice((1, 4, 16))), b"\x00" * 16, b"\n", b" ", b"\r"))
    return data[:start] + filling + data[start + rng.choice((0, len(filling))) :]


def _spliced(rng: Random, data: bytes, donor: bytes) -> bytes:
    return data[: rng.randint(0, len(data))] + donor[rng.randint(0, len(donor)) :]


_ByteChange = Callable[[Random, bytes, bytes], bytes]
_BYTE_CHANGES: Final[tuple[_ByteChange, ...]] = (
    *(_bit, _bit, _bit, _cut, _piece_gone, _piece_twice, _noise, _spliced),
)
