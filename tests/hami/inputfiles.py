"""The manifests of `inputs`, and how they are to be read."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from hami.containers import JsonObject
from hami.deviceconfig import DeviceConfig, parse
from tests.hami.chartconfig import chart_config

FOLDER = Path(__file__).parent / "inputs"


@dataclass(frozen=True, slots=True, kw_only=True)
class InputCase:
    """One document of an input file."""

    file: str
    """Such as `in-01`."""
    title: str
    manifest: JsonObject
    config: DeviceConfig
    expected: dict[str, Any]

    @property
    def pod(self) -> JsonObject:
        """The pod, as a controller would make it."""
        if self.manifest["kind"] == "Pod":
            return self.manifest
        template: JsonObject = self.manifest["spec"]["template"]
        return {"apiVersion": "v1", "kind": "Pod", **template}


def input_cases() -> Iterator[InputCase]:
    """Yield every document of every file."""
    for path in sorted(FOLDER.glob("*.yaml")):
        for said in yaml.safe_load_all(path.read_text()):
            yield InputCase(
                file=path.stem,
                title=said["case"],
                manifest=said["object"],
                config=parse(chart_config(**said.get("config", {}).get("nvidia", {}))),
                expected=said["expected"],
            )
