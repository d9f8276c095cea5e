"""What is kept of claims, and that nobody gets what was made for another."""

import tracemalloc

import pytest

from gpu.refusal import RefusedError
from hami.preferences import Preferences
from hami.requests import NVIDIA, DeviceRequest
from webhook.claimcontent import Content, Contents
from webhook.claims import TranslationSettings
from webhook.devicewish import Asked, wished
from webhook.facts import ClusterFacts
from webhook.requestannotation import request_text
from webhook.templatecontent import content_of

HALF = DeviceRequest(word=NVIDIA, count=1, memory_mib=None, memory_percent=50, cores=0)
FACTS = ClusterFacts(gpus_by_memory_mib={40960: 8})
SETTINGS = TranslationSettings()


def asked(
    device: DeviceRequest = HALF,
    *,
    facts: ClusterFacts = FACTS,
    settings: TranslationSettings = SETTINGS,
    path: str = "spec.containers[0]",
    **preferences: object,
) -> Asked:
    """Return what a container asks."""
    return Asked(
        device=device,
        preferences=Preferences(**preferences),  # type: ignore[arg-type]
        facts=facts,
        settings=settings,
        path=path,
    )


def anew(question: Asked) -> Content:
    """Return the claim for *question* without anything kept."""
    request, warnings = wished(question)
    template, spec = content_of(request, question.path)
    return Content(text=request_text(request), template=template, spec=spec, warnings=warnings)


def device(memory_mib: int) -> DeviceRequest:
    """Return a request for a share of a size."""
    return DeviceRequest(word=NVIDIA, count=1, memory_mib=memory_mib, memory_percent=None, cores=10)


def test_the_same_is_made_once() -> None:
    """Who asks for the same gets the very same claim, also when equal facts were read anew."""
    contents = Contents()
    first = contents.of(asked())
    assert first == anew(asked())
    assert contents.of(asked(facts=ClusterFacts(gpus_by_memory_mib={40960: 8}))) is first


@pytest.mark.parametrize(
    "other",
    [
        asked(device(3000)),
        asked(use_types=("a100",)),
        asked(facts=ClusterFacts(gpus_by_memory_mib={40960: 8, 81920: 8})),
        asked(settings=TranslationSettings(core_policy="disable")),
        asked(path="spec.containers[1]", gpu_policies=("binpack",)),
        asked(gpu_policies=("binpack",)),
    ],
)
def test_whatever_differs_counts(other: Asked) -> None:
    """A claim is never that of another question, whichever of both came first."""
    contents = Contents()
    for question in (asked(), other, asked(), other):
        assert contents.of(question) == anew(question)


def test_a_refusal_is_not_kept() -> None:
    """What was refused for want of GPUs is served when there are some."""
    contents = Contents()
    with pytest.raises(RefusedError, match="NoSizesKnown"):
        contents.of(asked(facts=ClusterFacts()))
    assert contents.of(asked()) == anew(asked())


def test_little_is_kept() -> None:
    """Neither many requests nor long annotations make it grow."""
    contents = Contents()
    tracemalloc.start()
    for number in range(600):
        contents.of(asked(device(1000 + number)))
        contents.of(asked(modes=f"hami-core{number}" + "x" * 10_000))
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 4 << 20
    assert contents.of(asked(device(1000))) == anew(asked(device(1000)))
