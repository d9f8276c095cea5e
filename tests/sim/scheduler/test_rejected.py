"""Hold the simulated API server against what real ones said of the same objects."""

import asyncio
from collections.abc import Iterator

import pytest

from sim.apiserver.errors import StatusError
from sim.apiserver.server import ApiServer
from sim.scheduler.cel import fault_of
from tests.sim.scheduler.vector import Json, Vector, read_all

_ADMIN = {"resource.kubernetes.io/admin-access": "true"}


def _cases() -> Iterator[tuple[Vector, str]]:
    for vector in read_all():
        for release in vector.recorded if not vector.gates else ():
            yield vector, release


def _objects(vector: Vector) -> Iterator[tuple[str, Json]]:
    yield from (("deviceclasses", item) for item in vector.classes)
    yield from (("resourceslices", item) for item in vector.slices)
    for item in vector.claims:
        yield "resourceclaims", {key: it for key, it in item.items() if key != "status"}


async def _rejected(vector: Vector, release: str) -> str:
    api = ApiServer(release, check_expression=fault_of).api
    await api.patch(
        "namespaces",
        "default",
        {"metadata": {"labels": _ADMIN}},
        content_type="application/merge-patch+json",
    )
    if vector.namespace != "default":
        await api.create("namespaces", {"metadata": {"name": vector.namespace}})
    for resource, item in _objects(vector):
        try:
            await api.create(resource, item)
        except StatusError:
            return f"{item['kind']} {item['metadata']['name']}"
    return ""


@pytest.mark.parametrize(
    ("vector", "release"), [pytest.param(*it, id=f"{it[0].name}-{it[1]}") for it in _cases()]
)
def test_rejects_what_the_real_api_server_does(vector: Vector, release: str) -> None:
    """The same object is rejected, if any is."""
    recorded = vector.recorded[release]
    expected = recorded["object"] if recorded.get("refused") == "rejected" else ""
    assert asyncio.run(_rejected(vector, release)) == expected
