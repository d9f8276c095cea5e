"""Readers of the webhook that are broken on purpose: each property finds its own."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from cli.convert.conversion import Converted
from hami.deviceconfig import DeviceConfig, NvidiaConfig
from kube.objects import JsonObject
from tests.fuzz import converted, deviceconfigs, gpu_quotas, offered_gpus
from tests.fuzz.converted import ConvertedManifests
from tests.fuzz.deviceconfigs import DeviceConfigs
from tests.fuzz.gpu_quotas import GpuQuotas
from tests.fuzz.offered_gpus import OfferedGpus
from tests.fuzz.planting import expect_found
from tests.fuzz.requestannotations import RequestAnnotations
from tests.fuzz.reviews import Reviews
from tests.fuzz.running import Target
from tests.fuzz.world import Decider
from webhook import requestannotation
from webhook.facts import ClusterFacts
from webhook.quotas import QuotaReading
from webhook.review import ALLOWED, Review, Verdict
from webhook.sharerequest import ShareRequest
from webhook.slicefacts import OfferedSlice


def in_gib(claims_serve: bool) -> Decider:  # noqa: FBT001 - as a target asks
    """Take MiB for GiB."""
    config = DeviceConfig(nvidia=NvidiaConfig(memory_factor=1024))
    return Decider(claims_serve=claims_serve, config=config)


class Trusting(Decider):
    """Finds nothing wrong."""

    def validate(self, review: Review) -> Verdict:
        """Allow everything."""
        del review
        return ALLOWED


class Lazy(Decider):
    """Changes nothing."""

    def mutate(self, review: Review) -> Verdict:
        """Leave what it allows as it is."""
        return replace(super().mutate(review), patch=())


class Claimless(Decider):
    """Forgets which container has which claim."""

    def mutate(self, review: Review) -> Verdict:
        """Leave out the claims of containers."""
        found = super().mutate(review)
        kept = (each for each in found.patch if "/resources/claims" not in each["path"])
        return replace(found, patch=tuple(kept))


class Meddling(Decider):
    """Changes what it should not."""

    def mutate(self, review: Review) -> Verdict:
        """Set another image, too."""
        found = super().mutate(review)
        step = {"op": "add", "path": "/spec/containers/0/image", "value": "x"}
        return replace(found, patch=(*found.patch, step) if found.patch else ())


class Failing(Decider):
    """Raises."""

    def validate(self, review: Review) -> Verdict:
        """Raise for what is no object."""
        raise LookupError(review.uid)


def without_factor(text: str) -> DeviceConfig:
    """Forget the factor."""
    found = deviceconfigs.read_file(text)
    return replace(found, nvidia=replace(found.nvidia, memory_factor=1))


def halved(text: str) -> Mapping[str, ShareRequest]:
    """Ask for half of the memory."""
    return {
        name: each.model_copy(update={"memory_mib": each.memory_mib and each.memory_mib // 2 + 1})
        for name, each in requestannotation.read(text).items()
    }


def without_unreadable(quota: JsonObject) -> QuotaReading:
    """Take a bound that cannot be read for none."""
    found = gpu_quotas.read_object(quota)
    return replace(found, bounds=tuple(each for each in found.bounds if each.limit is not None))


def with_zero_as_many(quota: JsonObject) -> QuotaReading:
    """Take 0 for "not set"."""
    found = gpu_quotas.read_object(quota)
    return replace(found, bounds=tuple(replace(b, limit=b.limit or 1 << 40) for b in found.bounds))


def first_only(slices: Sequence[OfferedSlice]) -> ClusterFacts:
    """Count one slice."""
    return offered_gpus.count(slices[:1])


def rounded(slices: Sequence[OfferedSlice]) -> ClusterFacts:
    """Round sizes to GiB."""
    found = offered_gpus.count(slices)
    sizes = {-(-size // 1024) * 1024: number for size, number in found.gpus_by_memory_mib.items()}
    return replace(found, gpus_by_memory_mib={**found.gpus_by_memory_mib, **sizes})


def unconverted(text: str) -> list[tuple[Any, Converted]]:
    """Print what was given."""
    return [
        (item, Converted(item=item, refusals=each.refusals))
        for item, each in converted.convert(text)
    ]


PLANTED: list[tuple[Target, str]] = [
    (Reviews(in_gib), "another amount"),
    (Reviews(lambda serve: Lazy(claims_serve=serve)), "a resource was left"),
    (Reviews(lambda serve: Claimless(claims_serve=serve)), "claims of a container"),
    (Reviews(lambda serve: Trusting(claims_serve=serve)), "a forged annotation was taken"),
    (Reviews(lambda serve: Trusting(claims_serve=serve)), "an invalid configuration was taken"),
    (Reviews(lambda serve: Meddling(claims_serve=serve)), "a field was touched"),
    (Reviews(lambda serve: Failing(claims_serve=serve)), "LookupError"),
    (DeviceConfigs(without_factor), "another memoryFactor"),
    (RequestAnnotations(halved), "another amount"),
    (GpuQuotas(without_unreadable), "other bounds"),
    (GpuQuotas(with_zero_as_many), "another bound"),
    (OfferedGpus(first_only), "a good slice is hidden"),
    (OfferedGpus(rounded), "a size that nobody published"),
    (ConvertedManifests(unconverted), "a resource was left"),
]


@pytest.mark.parametrize(("target", "said"), PLANTED, ids=lambda value: getattr(value, "name", ""))
def test_a_broken_reader_is_found(target: Target, said: str) -> None:
    """Each thing that a target looks for, it finds."""
    expect_found(target, said)
