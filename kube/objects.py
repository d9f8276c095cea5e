"""How Kubernetes objects are held here: as the JSON they came in, so unknown fields survive."""

from typing import Any, NamedTuple

JsonObject = dict[str, Any]


class ObjectKey(NamedTuple):
    """What names an object among those of its kind; cluster-wide ones have no namespace."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


def key_of(item: JsonObject) -> ObjectKey:
    """Return the key in the metadata of *item*."""
    metadata = item["metadata"]
    return ObjectKey(metadata.get("namespace", ""), metadata["name"])
