"""What validation found, in the words of apimachinery's `field.Error`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from sim.apiserver.errors import Cause

if TYPE_CHECKING:
    from collections.abc import Iterable


NEWEST = 37
_SHOWN_MAX = 4000


class Findings:
    """Collects causes; a path is a field path such as `spec.devices[0].name`."""

    def __init__(self, minor: int = NEWEST) -> None:
        self.minor = minor
        """The server's minor; releases say some things in their own words."""
        self.causes: list[Cause] = []

    def invalid(self, path: str, value: Any, why: str) -> None:
        """Note a value that breaks a rule."""
        self._add("FieldValueInvalid", path, f"Invalid value: {_shown(value)}: {why}")

    def required(self, path: str, why: str = "") -> None:
        """Note a value that is missing."""
        self._add("FieldValueRequired", path, f"Required value: {why}" if why else "Required value")

    def forbidden(self, path: str, why: str) -> None:
        """Note a value that may not be there."""
        self._add("FieldValueForbidden", path, f"Forbidden: {why}")

    def duplicate(self, path: str, value: Any) -> None:
        """Note an entry whose key another one has."""
        self._add("FieldValueDuplicate", path, f"Duplicate value: {_shown(value)}")

    def not_supported(
        self, path: str, value: Any, supported: Iterable[str], *, in_order: bool = False
    ) -> None:
        """Note a value outside of an enumeration, which is told sorted or in its own order."""
        names = supported if in_order else sorted(supported)
        told = ", ".join(f'"{name}"' for name in names)
        message = f"Unsupported value: {_shown(value)}: supported values: {told}"
        self._add("FieldValueNotSupported", path, message)

    def not_found(self, path: str, value: Any, why: str) -> None:
        """Note a reference to what is not there."""
        self._add("FieldValueNotFound", path, f"Not found: {_shown(value)}: {why}")

    def at_most(self, path: str, entries: Any, limit: int) -> None:
        """Note a list or map with more than *limit* entries."""
        if entries is not None and len(entries) > limit:
            message = f"Too many: {len(entries)}: must have at most {limit} items"
            self._add("FieldValueTooMany", path, message)

    def at_most_bytes(self, path: str, text: str, limit: int) -> None:
        """Note a text of more than *limit* bytes."""
        if len(text.encode()) > limit:
            message = f"Too long: may not be more than {limit} bytes"
            self._add("FieldValueTooLong", path, message)

    def unchanged(self, path: str, old: Any, new: Any) -> None:
        """Note a changed value of an immutable field."""
        if old != new:
            self.invalid(path, new, "field is immutable")

    def unique(self, path: str, keys: Iterable[Any]) -> None:
        """Note entries of a list whose keys repeat earlier ones."""
        seen: set[Any] = set()
        for index, key in enumerate(keys):
            if key in seen:
                self.duplicate(f"{path}[{index}]", key)
            seen.add(key)

    def _add(self, reason: str, path: str, message: str) -> None:
        self.causes.append(Cause(reason=reason, field=path, message=message))


def _shown(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))[:_SHOWN_MAX]
