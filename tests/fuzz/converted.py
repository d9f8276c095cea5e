"""Manifests on their way through `gpuslice convert`: whatever people have in their files.

What is printed is held against what the manifest asked, and the rest of it must come through.
"""

from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from cli.convert.conversion import Converted, Converter
from cli.convert.errors import ManifestError
from cli.convert.reading import documents
from cli.convert.workloads import is_list, path_to_pod, pod_in
from cli.convert.writing import yaml_of
from hami.deviceconfig import DeviceConfig
from tests.fuzz.asked import KEYS
from tests.fuzz.claimed import expect_claims
from tests.fuzz.mutation import at, paths, replaced, spoiled, spoiled_yaml
from tests.fuzz.review_seeds import AMOUNTS, PODS
from tests.fuzz.running import expect

_NAMED: Final = {"name": "app", "namespace": "team-red"}


def _workload(api_version: str, kind: str, spec: Any) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "metadata": _NAMED, "spec": spec}


def _template(pod: Any) -> dict[str, Any]:
    return {"metadata": {"labels": {"app": "a"}, **pod["metadata"]}, "spec": pod["spec"]}


_VALID: Final[tuple[Any, ...]] = (
    *PODS,
    _workload("apps/v1", "Deployment", {"replicas": 3, "template": _template(PODS[0])}),
    _workload(
        "batch/v1",
        "CronJob",
        {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": _template(PODS[2])}}},
    ),
    {"apiVersion": "v1", "kind": "List", "items": [PODS[1], {"kind": "ConfigMap", "data": {}}]},
)

Convert = Callable[[str], list[tuple[Any, Converted]]]


def convert(text: str) -> list[tuple[Any, Converted]]:
    """Return each object in *text* and what became of it, as the command does."""
    converter = Converter(config=DeviceConfig(vendors=()), sizes_mib=(23028, 81920))
    return [(item, converter.convert(item)) for item, _ in documents(text)]


@dataclass(frozen=True, slots=True)
class ConvertedManifests:
    """Files near those that people apply."""

    convert: Convert = field(default=convert)
    name: str = "converted-manifests"
    weight: int = 2

    def make(self, rng: Random) -> str:
        """Return a file."""
        found = spoiled(rng, _amounts(rng, rng.choice(_VALID)), donor=rng.choice(_VALID), most=2)
        return spoiled_yaml(rng, found)

    def check(self, sample: str) -> bool:
        """Hold the pods that come out against those that went in."""
        try:
            found = self.convert(sample)
        except ManifestError as error:
            str(error).encode(errors="backslashreplace")
            return False
        for item, each in found:
            for text in (*each.refusals, *each.warnings):
                expect(len(text) < 4000, "an endless message")
            if each.refusals:
                continue
            for template in each.templates:
                yaml_of(template)
            yaml_of(each.item)
            for old, new, templates in _pods(item, each):
                specs = {t["metadata"]["name"]: t["spec"]["spec"] for t in templates}
                _expect_pod(old, new, specs)
        return not any(each.refusals for _, each in found)

    def close(self) -> None:
        """Do nothing: nothing is held."""


def _amounts(rng: Random, manifest: Any) -> Any:
    for path in [each for each in paths(manifest) if each and each[-1] == "limits"]:
        if rng.random() < 0.3 and isinstance(at(manifest, path), dict):
            manifest = replaced(manifest, (*path, rng.choice(KEYS)), rng.choice(AMOUNTS))
    return manifest


def _pods(item: Any, made: Converted) -> Iterator[tuple[Any, Any, tuple[Any, ...]]]:
    """Yield each pod before and after, with the templates beside it."""
    if is_list(item):
        return
    path = path_to_pod(item)
    old = None if path is None else pod_in(item, path)
    if path is not None and old is not None:
        yield deepcopy(old), pod_in(made.item, path), made.templates


def _expect_pod(old: Any, new: Any, specs: dict[str, Any]) -> None:
    if specs or isinstance(new.get("spec"), dict):
        expect_claims(old, {"spec": {}} | new, specs)
