"""What two servers answer, in a form in which it is the same when they behave the same.

Names that a scene cannot choose (identities, versions, times, generated names) become marks that
are numbered where it matters which is which. `managedFields` is left out: the simulated server
keeps it for managers that apply alone.
"""

import itertools
import re
from collections.abc import Sequence
from typing import Any, Final

_UID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_LONG_TIME: Final = re.compile(r"[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d [+-]\d{4}")
_VERSION: Final = re.compile(r"((?i:resource ?version)[^0-9\n]{1,24}?)\d+( \(\d+\))?")
_NEWEST: Final = re.compile(r"(, current: )\d+")
_GENERATED: Final = re.compile(r"\b((?i:generated)[-_])[a-z0-9]{5}\b")
_ADDRESS: Final = re.compile(r"127\.0\.0\.1:\d+|10\.96\.0\.1:443")
# Two ages are as good as one, and columns are as wide as what they hold.
_AGE: Final = re.compile(r"\b\d+m?s\b")
# How Go writes values, and what its libraries say of texts, is not what clients decide by.
_VALUE: Final = re.compile(
    r'^(Invalid|Duplicate) value: ("(?:[^"\\]|\\.)*"|null|\{.*\}|\[.*\]|[^:]*)(?=: |$)', re.DOTALL
)
_LIBRARY: Final = re.compile(
    r"(compilation failed|json:|strconv\.|continue token:|regular expression).*", re.DOTALL
)
_DIFFERENCE: Final = re.compile(r"\n@@ .*", re.DOTALL)
_HINT: Final = re.compile(
    r"(, and must start and end with an alphanumeric character)? \(e\.g\. .*?regex used.*?'\)"
    r"( with an optional DNS subdomain prefix and '/' \(e\.g\. 'example.com/MyName'\))?"
)
_LEFT_OUT: Final = {"managedFields", "selfLink"}
_OPAQUE: Final = {"resourceVersion": "<version>", "continue": "<continue>"}


class Names:
    """The marks of one scene; the same name always gets the same mark."""

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace
        self._uids: dict[str, str] = {}
        self._numbers = itertools.count(1)

    def normal(self, value: Any) -> Any:
        """Return *value* with marks in it."""
        if isinstance(value, dict):
            return {
                self.text(key): _OPAQUE[key] if key in _OPAQUE and item else self.normal(item)
                for key, item in value.items()
                if key not in _LEFT_OUT
            }
        if isinstance(value, list | tuple):
            return [self.normal(item) for item in value]
        return self.text(value) if isinstance(value, str) else value

    def text(self, text: str) -> str:
        """Return *text* with marks in it."""
        text = text.replace(self._namespace, "<namespace>")
        text = _UID.sub(self._mark, text)
        for pattern in (_TIME, _LONG_TIME):
            text = pattern.sub("<time>", text)
        text = _VERSION.sub(r"\1<version>", text)
        text = _NEWEST.sub(r"\1<version>", text)
        text = _GENERATED.sub(r"\1<five>", text)
        return _ADDRESS.sub("<address>", text)

    def _mark(self, found: re.Match[str]) -> str:
        uid = found[0]
        if uid not in self._uids:
            self._uids[uid] = f"<uid {next(self._numbers)}>"
        return self._uids[uid]


def answer_of(status: int, body: Any, warnings: Sequence[str]) -> dict[str, Any]:
    """Return the parts of an answer that clients decide by."""
    told: dict[str, Any] = {"status": status}
    if isinstance(body, dict) and body.get("kind") == "Status" and status >= 400:
        told |= {key: body[key] for key in ("reason", "message", "details") if key in body}
        told["message"] = _plain(told.get("message", ""))
        causes = body.get("details", {}).get("causes")
        if causes:
            # It repeats the causes.
            told["message"] = told["message"].partition(" is invalid: ")[0]
            told["details"] = {**told["details"], "causes": [_cause(each) for each in causes]}
    else:
        told["body"] = body
    if warnings:
        told["warnings"] = list(warnings)
    return told


def _cause(cause: dict[str, str]) -> dict[str, str]:
    message = _VALUE.sub(r"\1 value: <value>", cause["message"])
    return {**cause, "message": _plain(message)}


def _plain(message: str) -> str:
    return _LIBRARY.sub(r"\1 ...", _DIFFERENCE.sub("", _HINT.sub("", message)))


def printed(text: str) -> str:
    """Return what a program printed for people, without ages and the width of columns."""
    lines = (re.sub(r" {2,}", "  ", line.rstrip()) for line in text.splitlines())
    return "\n".join(_AGE.sub("<age>", line) for line in lines)
