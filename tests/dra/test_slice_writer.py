"""Plans carried out on an API server, and what it makes of them."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest

from dra.layout import build_slices
from dra.slice_plan import Plan, plan_slices
from dra.slice_writer import SliceWriter
from kube.client import Client
from kube.errors import ConflictError
from kube.paths import resource_slices
from tests.fakes.api_server import serving

TAINT = {"key": "gpuslice.io/xid", "effect": "NoSchedule"}


@contextmanager
def client_of(version: str) -> Iterator[Client]:
    """Run an API server and yield a client of it."""
    with serving(version) as where, closing(where.client()) as client:
        yield client


def wanted(*devices: dict[str, Any]) -> tuple[dict[str, Any], ...]:
    """Return the slices for *devices*."""
    return build_slices(devices, node_name="node-1", node_uid="uid-1")


def test_writes_are_told_in_order() -> None:
    """Deletions come before updates, updates before creations."""
    with client_of("1.37") as client:
        verbs: list[str] = []
        writer = SliceWriter(client, node_name="node-1", observe=verbs.append)
        many = tuple({"name": f"gpu-{index}"} for index in range(300))
        writer.carry_out(plan_slices(wanted(*many), []), [], stopping=lambda: False)
        existing = writer.read()
        fewer = wanted(*many[5:130])
        first = next(item for item in existing if item["metadata"]["name"].startswith("00000-"))
        rest = [item for item in existing if item is not first]
        client.delete(resource_slices(first["metadata"]["name"]))
        verbs.clear()
        plan = plan_slices(wanted(*many[5:]), rest)
        outcome = writer.carry_out(plan, rest, stopping=lambda: False)
        assert verbs == ["update", "update", "create"]
        assert outcome is not None
        assert plan_slices(wanted(*many[5:]), outcome.slices).is_empty()
        verbs.clear()
        writer.carry_out(plan_slices(fewer, outcome.slices), outcome.slices, stopping=lambda: False)
        assert verbs == ["delete", "delete", "update"]
        assert plan_slices(fewer, writer.read()).is_empty()


def test_a_deletion_of_something_gone_is_done() -> None:
    """Somebody else was faster: that is all right, and no write of ours."""
    with client_of("1.37") as client:
        verbs: list[str] = []
        writer = SliceWriter(client, node_name="node-1", observe=verbs.append)
        writer.carry_out(plan_slices(wanted(), []), [], stopping=lambda: False)
        (item,) = writer.read()
        client.delete(resource_slices(item["metadata"]["name"]))
        outcome = writer.carry_out(Plan(deletes=(item,)), [item], stopping=lambda: False)
        assert outcome is not None
        assert outcome.slices == []
        assert verbs == ["create"]


def test_only_what_was_looked_at_is_deleted() -> None:
    """A slice that changed since it was read is not deleted."""
    with client_of("1.37") as client:
        writer = SliceWriter(client, node_name="node-1")
        writer.carry_out(plan_slices(wanted(), []), [], stopping=lambda: False)
        (item,) = writer.read()
        client.replace(
            resource_slices(item["metadata"]["name"]),
            item
            | {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice"}
            | {"spec": item["spec"] | {"devices": [{"name": "gpu-a"}]}},
        )
        with pytest.raises(ConflictError):
            writer.carry_out(Plan(deletes=(item,)), [item], stopping=lambda: False)
        assert len(writer.read()) == 1


def test_a_stop_ends_between_two_writes() -> None:
    """A process that is told to stop writes nothing more."""
    with client_of("1.37") as client:
        writer = SliceWriter(client, node_name="node-1")
        outcome = writer.carry_out(plan_slices(wanted(), []), [], stopping=lambda: True)
        assert outcome is None
        assert writer.read() == []


def test_a_loss_is_named_and_not_fought() -> None:
    """Taints that a server does not keep are told once and are no reason to write again."""
    slices = wanted({"name": "gpu-a", "taints": [TAINT]})
    with client_of("1.34") as client:
        writer = SliceWriter(client, node_name="node-1")
        outcome = writer.carry_out(plan_slices(slices, []), [], stopping=lambda: False)
        assert outcome is not None
        assert outcome.lost == ("spec.devices[].taints",)
        assert not plan_slices(slices, writer.read()).is_empty()
        assert plan_slices(slices, writer.read(), accepted=outcome.rewritten).is_empty()


def test_the_time_of_a_taint_is_no_loss() -> None:
    """The server fills in when a taint was added, and the slice is as it should be."""
    slices = wanted({"name": "gpu-a", "taints": [TAINT]})
    with client_of("1.37") as client:
        writer = SliceWriter(client, node_name="node-1")
        outcome = writer.carry_out(plan_slices(slices, []), [], stopping=lambda: False)
        assert outcome is not None
        assert outcome.lost == ()
        assert outcome.rewritten == {}
        assert "timeAdded" in outcome.slices[0]["spec"]["devices"][0]["taints"][0]
        assert plan_slices(slices, writer.read()).is_empty()
