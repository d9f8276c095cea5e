"""Hold the allocator against cases on disk, each with the place its expectation comes from.

A case says for which releases it holds; `*` stands for any share id. Reasons are looked up among
the verdicts and need not be all of them.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from kube.quantity import parse
from sim.scheduler.allocator import AllocationResult, Allocator, Cluster, Outcome
from sim.scheduler.devices import DeviceId
from sim.scheduler.usage import Usage
from sim.scheduler.verdicts import DeviceVerdict

VECTORS = Path(__file__).parent / "vectors"


def _read_cases() -> Iterator[Any]:
    for path in sorted(VECTORS.glob("*.json")):
        vector = json.loads(path.read_text())
        for profile in vector.get("profile", ()):
            yield pytest.param(vector, profile, id=f"{path.stem}-{profile}")


CASES = tuple(_read_cases())


def _device(item: dict[str, Any]) -> DeviceId:
    return DeviceId(item["driver"], item["pool"], item["device"])


def _state(state: dict[str, Any]) -> Usage:
    shared: dict[DeviceId, set[str]] = {}
    for item in state["shared"]:
        shared.setdefault(_device(item), set()).add(item["shareID"])
    return Usage(
        dedicated=frozenset(_device(item) for item in state["dedicated"]),
        shared={device: frozenset(ids) for device, ids in shared.items()},
        used={
            _device(item): {name: parse(text) for name, text in item["capacity"].items()}
            for item in state["used"]
        },
    )


def _run(vector: dict[str, Any], profile: str) -> AllocationResult:
    cluster = Cluster(
        slices=vector["slices"],
        classes={item["metadata"]["name"]: item for item in vector["classes"]},
        usage=_state(vector["state"]),
    )
    allocator = Allocator(profile, gates=vector["features"])
    return allocator.allocate(vector["claims"], node=vector["node"], cluster=cluster)


def _with_stars(allocations: tuple[dict[str, Any], ...]) -> list[dict[str, Any]]:
    copies: list[dict[str, Any]] = json.loads(json.dumps(allocations))
    seen = set()
    for allocation in copies:
        for result in allocation["devices"].get("results", ()):
            if "shareID" in result:
                seen.add(UUID(result["shareID"]))
                result["shareID"] = "*"
    shares = sum("shareID" in it for made in copies for it in made["devices"].get("results", ()))
    assert len(seen) == shares
    return copies


def _says(verdict: DeviceVerdict, reason: dict[str, str]) -> bool:
    device = verdict.device or DeviceId("", "", "")
    said = {
        "request": verdict.request,
        "device": device.device,
        "pool": device.pool,
        "code": verdict.refused.code,
        "value": verdict.refused.value,
        "limit": verdict.refused.limit,
    }
    return reason.items() <= said.items()


@pytest.mark.parametrize(("vector", "profile"), CASES)
def test_allocates_as_expected(vector: dict[str, Any], profile: str) -> None:
    """The result is the one that the case expects, with its reasons."""
    expected = vector["expect"]
    result = _run(vector, profile)
    if "allocations" in expected:
        assert result.outcome is Outcome.ALLOCATED, result
        assert _with_stars(result.allocations) == expected["allocations"]
    elif "error" in expected:
        assert (result.outcome.value, result.code) == (expected["error"], expected["code"])
        assert result.message
    else:
        assert result.outcome is Outcome.NONE, result
    if "calls" in vector:
        assert result.calls == vector["calls"]
    for reason in expected.get("reasons", ()):
        assert any(_says(verdict, reason) for verdict in result.verdicts), result.verdicts


@pytest.mark.parametrize(("vector", "profile"), CASES)
def test_repeats_itself(vector: dict[str, Any], profile: str) -> None:
    """The same inputs give the same answer, share ids apart."""
    first, second = _run(vector, profile), _run(vector, profile)
    assert _with_stars(first.allocations) == _with_stars(second.allocations)
    assert (first.outcome, first.calls) == (second.outcome, second.calls)
    assert first.verdicts == second.verdicts
