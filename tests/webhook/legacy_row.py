"""A row of the table of legacy requests: a key, how it is used, and what becomes of it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import yaml

from hami.deviceconfig import DeviceConfig, parse
from hami.vendor_rules.chart import SECTIONS
from kube.objects import JsonObject
from tests.hami.chartconfig import chart_config

IMAGE = "registry.example/app:1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What becomes of a pod in one mode; what is not said is not looked at."""

    says: str
    """For people, in the document."""
    claim: JsonObject | None = None
    """What the only claim contains; see `containing.missing`."""
    pod: JsonObject | None = None
    """What the pod contains afterwards."""
    refused: str = ""
    """The code of the reason."""
    warned: str = ""
    """The code of a warning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One test: *limits* and *annotations* of a pod, *sections* of the configuration."""

    name: str
    """Of the test."""
    keys: tuple[str, ...]
    given: str
    limits: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    more: JsonObject = field(default_factory=dict)
    """Further fields of the container."""
    namespace_labels: Mapping[str, str] = field(default_factory=dict)
    sections: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Over those of HAMi's chart."""
    dra: Outcome
    hami: Outcome
    inert: bool = False
    """The configuration changes nothing at admission."""

    @property
    def pod(self) -> JsonObject:
        """The pod as the API server hands it over: it copies limits to requests."""
        container: JsonObject = {"name": "main", "image": IMAGE, **self.more}
        if self.limits:
            limits = dict(self.limits)
            container["resources"] = {"limits": limits, "requests": dict(limits)}
        metadata: JsonObject = {"name": "pod", "namespace": "default"}
        if self.annotations:
            metadata["annotations"] = dict(self.annotations)
        spec = {"schedulerName": "default-scheduler", "containers": [container]}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}

    @property
    def config(self) -> DeviceConfig:
        """The configuration: HAMi's chart's with the row's own values."""
        return _configured(json.dumps(self.sections)) if self.sections else _plain()


@cache
def _plain() -> DeviceConfig:
    said = {**SECTIONS, **yaml.safe_load(chart_config())}
    return parse(yaml.safe_dump(said), ascend=True, iluvatar=True)


@cache
def _configured(sections: str) -> DeviceConfig:
    """Return the configuration of NVIDIA and of those *sections*, which are JSON."""
    chart = {**SECTIONS, **yaml.safe_load(chart_config())}
    said = {name: _over(chart[name], values) for name, values in json.loads(sections).items()}
    return parse(yaml.safe_dump({"nvidia": chart["nvidia"], **said}), ascend=True, iluvatar=True)


def _over(section: Any, values: Mapping[str, Any]) -> Any:
    """Return *section* with other values; where it lists models, the first gets them."""
    if isinstance(section, list):
        return [{**section[0], **values}, *section[1:]]
    of_all = {key: value for key, value in values.items() if key in section}
    of_model = {key: value for key, value in values.items() if key not in section}
    new = {**section, **of_all}
    if "configs" in section:
        return new | {"configs": _over(section["configs"], of_model)}
    return new | of_model


def exactly(**fields: Any) -> JsonObject:
    """Return a claim with one request without alternatives."""
    return {"devices": {"requests": [{"exactly": fields}]}}


def either(*alternatives: JsonObject) -> JsonObject:
    """Return a claim with one request that has these alternatives."""
    return {"devices": {"requests": [{"firstAvailable": list(alternatives)}]}}


def capacity(**amounts: str) -> JsonObject:
    """Return what a request asks for."""
    return {"requests": amounts}


def main_has(**fields: Any) -> JsonObject:
    """Return a pod whose container has *fields*."""
    return {"spec": {"containers": [{"name": "main", **fields}]}}


def with_limits(limits: Mapping[str, Any], **metadata: Any) -> JsonObject:
    """Return a pod of HAMi's scheduler with these limits."""
    container = {"name": "main", "resources": {"limits": dict(limits)}}
    pod: JsonObject = {"spec": {"schedulerName": "hami-scheduler", "containers": [container]}}
    return pod | ({"metadata": metadata} if metadata else {})
