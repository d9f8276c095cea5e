"""Containers that ask other vendors than NVIDIA for devices, and what is read of them."""

from collections.abc import Mapping
from typing import Any

from hami.containers import JsonObject, all_containers
from hami.requests import DeviceRequest
from hami.vendors import Vendor, VendorReading, from_sections

CHART = {vendor.word: vendor for vendor in from_sections({}, ascend=True, iluvatar=True)}
"""All vendors as HAMi's chart configures them, by word."""
FIELD = "spec.containers{main}.resources.limits"


def pod(limits: Mapping[str, Any], **metadata: Any) -> JsonObject:
    """Return a pod of one container, as the API server hands it to webhooks."""
    resources = {"limits": dict(limits), "requests": dict(limits)}
    container = {"name": "main", "image": "app:1", "resources": resources}
    return {"metadata": metadata, "spec": {"containers": [container]}}


def read(
    vendor: Vendor | str,
    limits: Mapping[str, Any],
    *,
    annotations: Mapping[str, str] | None = None,
) -> VendorReading:
    """Return what *vendor*, or the one of that word, reads of a container with *limits*."""
    asked = pod(limits, annotations=dict(annotations or {}))
    return read_pod(vendor, asked)


def read_pod(vendor: Vendor | str, asked: JsonObject) -> VendorReading:
    """Return what is read of the first container of *asked*."""
    chosen = CHART[vendor] if isinstance(vendor, str) else vendor
    return chosen.read(all_containers(asked)[0], asked)


def request(word: str, count: int, **sizes: int | None) -> DeviceRequest:
    """Return a request; without *memory_mib* it is for 100 % of the memory."""
    memory_mib = sizes.get("memory_mib")
    percent = 100 if memory_mib is None else None
    return DeviceRequest(
        word=word,
        count=count,
        memory_mib=memory_mib,
        memory_percent=percent,
        cores=sizes.get("cores") or 0,
    )


def reasons(reading: VendorReading) -> dict[str, str]:
    """Return the reasons of a refusal by their code; there must be no request beside them."""
    assert reading.reasons
    assert reading.request is None
    return {each.code: str(each) for each in reading.reasons}


def warnings(reading: VendorReading) -> dict[str, str]:
    """Return the warnings by their code; there must be no refusal beside them."""
    assert not reading.reasons, reading.reasons
    return {each.code: str(each) for each in reading.warnings}
