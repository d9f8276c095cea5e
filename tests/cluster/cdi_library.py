"""What the released CDI library, which container engines use, says of spec files."""

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.assets import Assets


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One spec file: whether it loads, and its kind and devices, or why not."""

    path: str
    valid: bool
    error: str = ""
    kind: str = ""
    devices: tuple[str, ...] = ()


def judge(assets: Assets, paths: Sequence[Path]) -> list[Verdict]:
    """Return the library's verdict on each of *paths*."""
    done = subprocess.run(  # noqa: S603 - our own program
        [assets.path("cdicheck"), *map(str, paths)], capture_output=True, text=True, check=False
    )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(lines) == len(paths), done.stderr
    return [Verdict(**{**line, "devices": tuple(line.get("devices", ()))}) for line in lines]
