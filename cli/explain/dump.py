"""Read objects from files: what `kubectl get -o json` or `-o yaml` has printed.

Names and folders of the files do not matter. A file that holds no objects is left out, as long as
its name does not claim otherwise; one that cannot be read is told, for the verdict lacks it.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from cli.explain.errors import InputError
from kube.objects import JsonObject

_JSON, _YAML = (".json",), (".yaml", ".yml")
_SIZE_MAX = 512 * 1024 * 1024


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Reads YAML as Kubernetes does: a time is a text."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in known if not tag.endswith(":timestamp")]
    for first, known in _Loader.yaml_implicit_resolvers.items()
}


class Dump:
    """The objects of all files below a folder, or of one file."""

    def __init__(self, path: Path) -> None:
        self.objects: list[JsonObject] = []
        self.version = ""
        """The server's version where `kubectl version -o json` is among the files."""
        self.notes: list[str] = []
        self.modified_s = 0.0
        """When the newest file with objects was written."""
        files = sorted(it for it in path.rglob("*") if it.is_file()) if path.is_dir() else [path]
        for file in files:
            self._read(file, path)
        if not self.objects:
            message = f"{path} holds no Kubernetes objects in JSON or YAML"
            raise InputError(message)

    def _read(self, file: Path, root: Path) -> None:
        claims = file.suffix in (*_JSON, *_YAML) or file == root
        try:
            known = len(self.objects)
            for document in _documents(file):
                self._take(document)
            if len(self.objects) > known:
                self.modified_s = max(self.modified_s, file.stat().st_mtime)
        except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
            if claims:
                self.notes.append(f"{file} is left out: {_first_line(error)}")

    def _take(self, document: Any) -> None:
        if not isinstance(document, dict):
            return
        served = document.get("serverVersion")
        if isinstance(served, dict):
            self.version = str(served.get("gitVersion", ""))
        items = document.get("items")
        found = items if isinstance(items, list) else [document]
        self.objects += [_kinded(item, document) for item in found if _is_object(item)]


def is_kubeconfig(path: Path) -> bool:
    """Tell whether *path* is a file that says how to reach clusters."""
    if path.is_dir():
        return False
    try:
        with path.open("rb") as file:
            head = file.read(1 << 20)
        found = yaml.load(head, Loader=_Loader)  # noqa: S506 - it is a safe loader
    except OSError as error:
        message = f"{path} cannot be read: {error.strerror}"
        raise InputError(message) from error
    except yaml.YAMLError:
        return False
    return isinstance(found, dict) and found.get("kind") == "Config"


def _documents(file: Path) -> Iterator[Any]:
    if file.stat().st_size > _SIZE_MAX:
        message = f"it is larger than {_SIZE_MAX} bytes"
        raise ValueError(message)
    text = file.read_text(encoding="utf-8")
    if file.suffix not in _YAML and text.lstrip()[:1] in ("{", "["):
        yield json.loads(text)
    else:
        yield from yaml.load_all(text, Loader=_Loader)


def _is_object(item: Any) -> bool:
    metadata = item.get("metadata") if isinstance(item, dict) else None
    return isinstance(metadata, dict) and bool(metadata.get("name"))


def _kinded(item: JsonObject, document: JsonObject) -> JsonObject:
    """Return *item* with what an item of a list leaves to the list to say."""
    kind = str(document.get("kind", "")).removesuffix("List")
    return {"apiVersion": document.get("apiVersion"), "kind": kind} | item


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
