"""JSON as Go's `encoding/json` reads and writes it, because HAMi's programs do.

Go takes keys in any case, the last of several, leaves out what is unknown, takes null for absent,
and puts nothing else in the place of a number, a text or a truth value than one of its own kind. It
writes without blanks, escapes three signs for HTML and sorts the keys of maps.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from hami.reading import INT32_MAX, UnreadableError, bounded, unreadable
from hami.wording import shown

_DEPTH_MAX: Final = 16
_HTML: Final = str.maketrans(
    {
        "<": "\\u003c",
        ">": "\\u003e",
        "&": "\\u0026",
        "\u2028": "\\u2028",
        "\u2029": "\\u2029",
    }
)


def parsed(text: str) -> Any:
    """Return the document in *text*; raises `UnreadableError`."""
    try:
        found = json.loads(text, parse_constant=_no_number)
        if "\\u" in text:
            json.dumps(found, ensure_ascii=False).encode()
    except UnreadableError:
        raise
    except UnicodeEncodeError as error:
        raise UnreadableError("has half of a surrogate pair") from error
    except json.JSONDecodeError as error:
        message = f"no JSON at character {error.pos}: {shown(text)}"
        raise UnreadableError(message) from error
    except ValueError as error:
        raise UnreadableError("has a number that is too long") from error
    except RecursionError as error:
        raise UnreadableError("is nested too deep") from error
    return found


def entries(found: Any, what: str) -> list[Any]:
    """Return an array; null is an empty one, as Go writes it. Raises `UnreadableError`."""
    if found is None:
        return []
    if not isinstance(found, list):
        raise unreadable(what, found, "is no array")
    return found


def written(value: Any) -> str:
    """Return *value* as Go writes it; keys stay in the order of the struct's fields."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).translate(_HTML)


def sorted_keys(value: Any) -> Any:
    """Return *value* with the keys of its maps in Go's order."""
    if isinstance(value, Mapping):
        return {key: sorted_keys(value[key]) for key in sorted(value)}
    return [sorted_keys(each) for each in value] if isinstance(value, list | tuple) else value


class Fields:
    """One object of a document, read field by field; each method raises `UnreadableError`."""

    __slots__ = ("_raw", "_where")

    def __init__(self, raw: Any, known: frozenset[str], where: str) -> None:
        if not isinstance(raw, dict):
            raise unreadable(where, raw, "is no object")
        self._where = where
        self._raw: Mapping[str, Any] = raw if raw.keys() <= known else _folded(raw, known)

    def text(self, name: str, *, needed: bool = False) -> str:
        """Return a text; where it is *needed* an empty one is refused."""
        found = self._raw.get(name)
        if found is None:
            found = ""
        if not isinstance(found, str):
            raise unreadable(self._what(name), found, "is no text")
        if needed and not found:
            raise unreadable(self._what(name), found, "is empty")
        return found

    def integer(self, name: str, *, low: int = 0, high: int = INT32_MAX) -> int:
        """Return a whole number; 0 where there is none."""
        found = self.optional(name, low=low, high=high)
        return 0 if found is None else found

    def positive(self, name: str, *, high: int = INT32_MAX) -> int:
        """Return a whole number above zero."""
        return bounded(self.integer(name, high=high), self._what(name), low=1, high=high)

    def optional(self, name: str, *, low: int = 0, high: int = INT32_MAX) -> int | None:
        """Return a whole number, or `None`."""
        found = self._raw.get(name)
        if found is None:
            return None
        if type(found) is not int:
            raise unreadable(self._what(name), found, "is no whole number")
        return bounded(found, self._what(name), low=low, high=high)

    def flag(self, name: str) -> bool:
        """Return a truth value; false where there is none."""
        found = self._raw.get(name)
        if found is not None and not isinstance(found, bool):
            raise unreadable(self._what(name), found, "is neither true nor false")
        return bool(found)

    def objects(self, name: str, known: frozenset[str]) -> Iterator["Fields"]:
        """Yield the objects of an array."""
        for index, raw in enumerate(entries(self._raw.get(name), self._what(name))):
            yield Fields(raw, known, f"{self._what(name)}[{index}]")

    def object(self, name: str, known: frozenset[str]) -> "Fields":
        """Return an object; one without fields where there is none."""
        found = self._raw.get(name)
        return Fields({} if found is None else found, known, self._what(name))

    def mapping(self, name: str) -> dict[str, Any]:
        """Return an object with whatever is in it; an empty one where there is none."""
        found = self._raw.get(name)
        if found is None:
            return {}
        if not isinstance(found, dict):
            raise unreadable(self._what(name), found, "is no object")
        if _depth_exceeds(found, _DEPTH_MAX):
            raise unreadable(self._what(name), found, "is nested too deep")
        return found

    def texts(self, name: str) -> dict[str, str]:
        """Return an object of texts."""
        found = self.mapping(name)
        for key, value in found.items():
            if not isinstance(value, str):
                where = f"{self._what(name)}[{shown(key)}]"
                raise unreadable(where, value, "is no text")
        return found

    def integers(self, name: str, *, low: int, high: int) -> dict[str, int]:
        """Return an object of whole numbers."""
        return integers(self.mapping(name), self._what(name), low=low, high=high)

    def raw(self, name: str) -> Any:
        """Return what stands there, of whatever kind."""
        return self._raw.get(name)

    def _what(self, name: str) -> str:
        return f"{self._where}.{name}" if self._where else name


def integers(found: Any, what: str, *, low: int, high: int) -> dict[str, int]:
    """Return an object of whole numbers; raises `UnreadableError`."""
    if not isinstance(found, dict):
        raise unreadable(what or "the document", found, "is no object")
    for key, value in found.items():
        where = f"{what}[{shown(key)}]"
        if type(value) is not int:
            raise unreadable(where, value, "is no whole number")
        bounded(value, where, low=low, high=high)
    return found


def _folded(raw: dict[str, Any], known: frozenset[str]) -> dict[str, Any]:
    names = {name.lower(): name for name in known}
    return {names[key.lower()]: value for key, value in raw.items() if key.lower() in names}


def _depth_exceeds(value: Any, limit: int) -> bool:
    level = [value]
    for _ in range(limit):
        level = [
            inner
            for each in level
            for inner in (each.values() if isinstance(each, dict) else each)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return False
    return True


def _no_number(name: str) -> Any:
    message = f"{name} is no number"
    raise UnreadableError(message)
