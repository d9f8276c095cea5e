"""Spec files that are nearly right: those of the recorded cases with random changes."""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from tests.cluster.cdi_library import Container
from tests.sim.runtime.cdi_cases import cases

# A null among device nodes, mounts or hooks ends the library's process, so there is none.
_ODD: Final[tuple[object, ...]] = (
    *("", "A=1", "/a/../b", "none", "true"),
    *(0, 1, -1, 1.5, 2**32, True),
    *([], {}, ["A=1"]),
)


def odd_containers(root: Path, *, seed: int, count: int) -> Iterator[Container]:
    """Yield *count* containers with all devices of a changed spec, each device twice."""
    chance = random.Random(seed)  # noqa: S311 - repeatable
    documents = [document for document in _documents() if len(json.dumps(document)) < 20_000]
    for number in range(count):
        document = json.loads(json.dumps(chance.choice(documents)))
        for _ in range(chance.choice((1, 1, 2))):
            _change(document, chance)
        folder = root / str(number)
        folder.mkdir(parents=True)
        (folder / "a.json").write_text(json.dumps(document), encoding="utf-8")
        yield Container(directories=(folder,), devices=_names(document) * 2)


def _documents() -> Iterator[dict[str, Any]]:
    for case in cases().values():
        for text in case.files.values():
            try:
                found = json.loads(text)
            except ValueError:
                continue
            if isinstance(found, dict):
                yield found


def _change(document: dict[str, Any], chance: random.Random) -> None:
    """Replace, double or take away one thing anywhere in *document*."""
    holder, key = chance.choice(list(_places(document)))
    what = chance.random()
    if what < 0.2:
        del holder[key]
    elif what < 0.3 and isinstance(holder, list):
        holder.append(holder[key])
    else:
        holder[key] = chance.choice(_ODD)


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    keys = list(value) if isinstance(value, dict) else range(len(value))
    for key in keys:
        yield value, key
        if isinstance(value[key], dict | list):
            yield from _places(value[key])


def _names(document: dict[str, Any]) -> tuple[str, ...]:
    devices = document.get("devices")
    known = devices if isinstance(devices, list) else []
    names = [one.get("name") for one in known if isinstance(one, dict)]
    return tuple(f"{document.get('kind')}={name}" for name in names)
