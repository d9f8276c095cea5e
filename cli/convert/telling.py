"""Sentences about an object, each with the object before it."""

from collections.abc import Iterable

from gpu.refusal import Refusal
from kube.objects import JsonObject


class Telling:
    """Collects what is to be said of one object; *where* is the path to its pod."""

    def __init__(self, item: JsonObject, where: str = "") -> None:
        self._head = ", ".join(filter(None, (title(item), where)))
        self._warnings: dict[str, None] = {}
        self._refusals: dict[str, None] = {}

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return what does not stop the conversion, each once."""
        return tuple(self._warnings)

    @property
    def refusals(self) -> tuple[str, ...]:
        """Return what stops it, each once."""
        return tuple(self._refusals)

    def warn(self, found: Iterable[Refusal | str]) -> None:
        """Add warnings."""
        self._warnings |= dict.fromkeys(f"{self._head}: {each}" for each in found)

    def refuse(self, found: Iterable[Refusal]) -> None:
        """Add reasons."""
        self._refusals |= dict.fromkeys(f"{self._head}: {each}" for each in found)


def title(item: JsonObject) -> str:
    """Return kind and name of *item*, such as `Pod/app`."""
    metadata = item.get("metadata")
    named = metadata if isinstance(metadata, dict) else {}
    name = named.get("name") or named.get("generateName") or ""
    return f"{item.get('kind', 'object')}/{name}"
