"""Many objects at once, by a few threads: one client alone would be what a rate shows."""

import contextlib
import json
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from kube.client import MERGE_PATCH, Client
from kube.errors import NotFoundError
from kube.objects import JsonObject
from tests.patience import eventually

_THREADS: Final = 4
_CHUNK: Final = 500
Item = TypeVar("Item")


def for_each(items: Iterable[Item], work: Callable[[Item], object]) -> None:
    """Do *work* for each of *items*; the first error is raised when all are done."""
    with ThreadPoolExecutor(_THREADS) as pool:
        for _ in pool.map(work, items):
            pass


def create_all(client: Client, path: str, bodies: Iterable[JsonObject]) -> None:
    """Create all of *bodies* in the collection at *path*."""
    for_each(bodies, lambda body: client.create(path, body))


def names_in(client: Client, path: str) -> list[str]:
    """Return the names of all objects of the collection at *path*."""
    return [str(each["metadata"]["name"]) for each in json.loads(client.get(path))["items"]]


def delete_all(client: Client, path: str) -> None:
    """Delete the whole collection at *path*, whatever finalizers its objects have."""
    client.delete(path)
    for_each(names_in(client, path), lambda name: _let_go(client, f"{path}/{name}"))
    eventually(lambda: not names_in(client, path))


def _let_go(client: Client, path: str) -> None:
    with contextlib.suppress(NotFoundError):
        client.patch(path, {"metadata": {"finalizers": None}}, content_type=MERGE_PATCH)
