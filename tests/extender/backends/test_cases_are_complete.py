"""No backend is without the cases that every backend has to have."""

from collections.abc import Callable
from typing import Any, Final

import pytest

from hami.backends import Backend, backends
from hami.deviceconfig import parse
from hami.vendors import Vendor
from tests.extender.backends.cases import Kind, Scenario, scenarios
from tests.extender.backends.programs import CHART

CONFIG: Final = parse(CHART, ascend=True, iluvatar=True)
BACKENDS: Final = {each.word: each for each in backends(CONFIG)}
SCENARIOS: Final = tuple(scenarios())
_NEVER_WRITTEN: Final = {"hami.io/mthreads-vgpu-devices-to-allocate"}


def _of(word: str, kind: Kind) -> list[Scenario]:
    return [each for each in SCENARIOS if (each.word, each.kind) == (word, kind)]


def test_all_cases_are_of_known_backends() -> None:
    """A word that nobody serves would never be asked for."""
    assert {each.word for each in SCENARIOS} == set(BACKENDS)
    assert len(SCENARIOS) == len({str(each) for each in SCENARIOS})


@pytest.mark.parametrize("word", BACKENDS)
@pytest.mark.parametrize("kind", [Kind.FORM, Kind.RULE, Kind.RESTART])
def test_every_backend_has_cases_of(kind: Kind, word: str) -> None:
    """Its form of registration, a rule of its own, and a restart."""
    assert _of(word, kind)


def _bounded(backend: Backend) -> set[str]:
    if isinstance(backend, Vendor):
        names = {backend.quota_memory_name, backend.quota_core_name}
    else:
        names = {CONFIG.nvidia.resource_memory_name, CONFIG.nvidia.resource_core_name}
    return names - {""}


@pytest.mark.parametrize("word", BACKENDS)
def test_every_name_that_a_quota_bounds_is_bounded_in_a_case(word: str) -> None:
    """The names are those that HAMi's quotas have for the vendor."""
    bounded = {key for each in _of(word, Kind.QUOTA) for key in each.quota}
    assert bounded == {f"limits.{name}" for name in _bounded(BACKENDS[word])}


@pytest.mark.parametrize("word", BACKENDS)
def test_every_annotation_of_the_vendors_own_is_seen(word: str) -> None:
    """What its plugin reads beside the list of devices is written in a case."""
    vendor = BACKENDS[word]
    own = set(vendor.scheduler_keys) if isinstance(vendor, Vendor) else set[str]()
    seen = {
        key for each in SCENARIOS if each.word == word for step in each.steps for key in step.also
    }
    assert own - _NEVER_WRITTEN <= seen


_HALVES: Final[dict[Kind, Callable[[Scenario], Any]]] = {
    Kind.RULE: lambda each: each.steps,
    Kind.QUOTA: lambda each: each.steps,
    Kind.RESTART: lambda each: each.after,
}


@pytest.mark.parametrize("scenario", [each for each in SCENARIOS if each.kind in _HALVES], ids=str)
def test_cases_accept_and_refuse(scenario: Scenario) -> None:
    """A rule that lets everybody through, or nobody, is not shown to be one."""
    steps = _HALVES[scenario.kind](scenario)
    assert any(step.gets is not None for step in steps)
    assert any(step.refused or step.error for step in steps)
