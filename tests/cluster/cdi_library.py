"""What the released CDI library, which container engines use, makes of spec files."""

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.cluster.assets import Assets
from tests.sim.runtime.oci import Answer, oci, of_library

JsonObject = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One spec file: whether it loads, and its kind and devices, or why not."""

    path: str
    valid: bool
    error: str = ""
    kind: str = ""
    devices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """A container that is to get *devices*; *start* is what it has without them."""

    directories: tuple[Path, ...]
    devices: tuple[str, ...]
    start: JsonObject = field(default_factory=dict)


def judge(assets: Assets, paths: Sequence[Path]) -> list[Verdict]:
    """Return the library's verdict on each of *paths*."""
    done = subprocess.run(  # noqa: S603 - our own program
        [assets.path("cdicheck"), *map(str, paths)], capture_output=True, text=True, check=False
    )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(lines) == len(paths), done.stderr
    return [Verdict(**{**line, "devices": tuple(line.get("devices", ()))}) for line in lines]


def inject(program: str, containers: Sequence[Container]) -> list[Answer]:
    """Return what the library makes of each of *containers*; *program* is `cdicheck`."""
    asked = [
        {
            "directories": [str(path) for path in one.directories],
            "devices": one.devices,
            "spec": oci(one.start),
        }
        for one in containers
    ]
    done = subprocess.run(  # noqa: S603 - our own program
        [program, "inject"],
        input="\n".join(json.dumps(one) for one in asked),
        capture_output=True,
        text=True,
        check=False,
        # An engine runs there, and a relative path of a device node is looked for there.
        cwd="/",
    )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(lines) == len(containers), done.stderr
    return [_answer(line) for line in lines]


def _answer(line: JsonObject) -> Answer:
    unresolved = tuple(line["unresolved"] or ())
    return Answer(
        known=tuple(line["known"] or ()),
        refused=tuple(sorted(Path(path).name for path in line["refused"])),
        unresolved=unresolved,
        failed=bool(line["error"]) and not unresolved,
        container=None if line["spec"] is None else of_library(line["spec"]),
    )
