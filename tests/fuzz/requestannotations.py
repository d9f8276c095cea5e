"""The record that a translated pod carries of what it asked: anybody may write it.

What is taken is rendered, and each amount in the claim is held against the one in the text.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from gpu.refusal import RefusedError
from tests.fuzz.asked import MIB
from tests.fuzz.mutation import spoiled_text
from tests.fuzz.quantities import expected
from tests.fuzz.running import expect
from webhook.requestannotation import read, write
from webhook.sharerequest import ShareRequest
from webhook.templatecontent import content_of, is_genuine

_UUID: Final = "GPU-00000000-0000-4000-8000-000000000001"
_VALID: Final[tuple[dict[str, Any], ...]] = (
    {"gpu-main": {"cores": 30, "memoryMib": 3000}},
    {"gpu-main": {"cores": 100, "count": 2}, "gpu-b": {"cores": 0, "memoryMib": 1, "priority": 0}},
    {
        "gpu-half": {
            "cores": 30,
            "memoryPercent": 50,
            "sizesMib": [23028, 81920],
            "count": 2,
            "near": ["pcieRoot"],
            "corePolicy": "force",
        }
    },
    {
        "gpu-mig": {
            "cores": 0,
            "memoryMib": 5000,
            "devices": "gpu-or-mig",
            "migSizesMib": [9856],
            "useTypes": ["a10", "a100"],
            "nouseUuids": [_UUID],
        }
    },
    {
        "gpu-alone": {
            "cores": 100,
            "memoryMib": 4096,
            "shares": [4, 10],
            "fill": "binpack",
            "fillSteps": 2,
        }
    },
)
_FIELD: Final = "metadata.annotations"

Read = Callable[[str], Mapping[str, ShareRequest]]


@dataclass(frozen=True, slots=True)
class RequestAnnotations:
    """Texts near those that the webhook writes."""

    read: Read = field(default=read)
    name: str = "request-annotation"
    weight: int = 10

    def make(self, rng: Random) -> str:
        """Return a text."""
        said = {"version": 1, "claims": rng.choice(_VALID)}
        donor = {"version": 1, "claims": rng.choice(_VALID)}
        return spoiled_text(rng, said, donor=donor).decode("utf-8", "replace")

    def check(self, sample: str) -> bool:
        """Render what is taken: its claims ask for what the text says, under their own name."""
        try:
            found = self.read(sample)
        except RefusedError as error:
            expect(len(str(error)) < 1000, "an endless message")
            return False
        claims = json.loads(sample)["claims"]
        expect(found.keys() == claims.keys(), "other claims")
        for name, request in found.items():
            _expect_same(request, claims[name])
            try:
                template, spec = content_of(request, _FIELD)
            except RefusedError:
                continue
            expect(is_genuine(template, json.loads(json.dumps(spec))), "another hash of the same")
            _expect_spec(spec, claims[name])
        expect(self.read(write(found)) == found, "another answer the second time")
        return True

    def close(self) -> None:
        """Do nothing: nothing is held."""


def _expect_same(request: ShareRequest, said: Mapping[str, Any]) -> None:
    for key, name in (
        ("memoryMib", "memory_mib"),
        ("memoryPercent", "memory_percent"),
        ("cores", "cores"),
        ("count", "count"),
        ("priority", "priority"),
    ):
        value = getattr(request, name)
        wanted = said.get(key, 1 if key == "count" else None)
        same = value == wanted and type(value) is type(wanted)
        expect(same, f"another amount: {key} is {value!r} and not {wanted!r}")


def _expect_spec(spec: Any, said: Mapping[str, Any]) -> None:
    count = 0
    for request in spec["devices"]["requests"]:
        ways = request.get("firstAvailable") or [request["exactly"]]
        expect(len(ways) <= 8, "more alternatives than there may be")
        count += ways[0]["count"]
        for way in ways:
            asked = way["capacity"]["requests"]
            is_share = way["deviceClassName"] == "share.gpuslice.io"
            if is_share and "memoryMib" in said:
                memory = expected(asked["memory"])
                expect(memory == said["memoryMib"] * MIB, f"another amount: {memory}")
            if "cores" in asked:
                expect(expected(asked["cores"]) == said["cores"], "another amount of cores")
            expect(is_share <= ("memory" in asked), "a share without memory")
    expect(count == said.get("count", 1), f"another count: {count}")
