"""Checks of locks, claims and templates that hold something for nobody."""

from typing import Any

from cli.doctor.model import Status
from kube import paths
from tests.cli.doctor.world import (
    CLAIMS,
    NODES,
    SLICES,
    TEMPLATES,
    ago,
    claim,
    node,
    published,
    world,
)

LOCK = "hami.io/mutex.lock"
TEMPLATE = f"gpuslice-{'0' * 40}"


def test_old_locks() -> None:
    """A binding's lock of just now is well, one of ten minutes or of no time is not."""
    with world() as at:
        at.put(NODES, node("a", annotations={LOCK: f"{ago(seconds=20)},default,pod"}))
        assert at.verdict("node-locks").status is Status.OK
        old = ago(minutes=10)
        at.put(NODES, node("b", annotations={LOCK: f"{old},default,pod"}))
        at.put(NODES, node("c", annotations={LOCK: "yesterday"}))
        verdict = at.verdict("node-locks")
        assert verdict.status is Status.WARNING
        assert [each[:2] for each in verdict.details] == ["b:", "c:"]
        assert "by default/pod" in verdict.details[0]


def test_who_holds_gpus() -> None:
    """Claims with their pods, and pods by annotation where nodes have registered, are named."""
    with world() as at:
        assert at.verdict("gpus-in-use").seen == "no pod has a GPU of ours"
        held = claim("one", on="a")
        held["status"]["reservedFor"] = [{"resource": "pods", "name": "p"}]
        at.front.serve(CLAIMS, held, claim("two", on="a"), claim("x", on="a", driver="x.io"))
        register = {"hami.io/node-nvidia-register": '[{"id":"GPU-1"}]'}
        at.put(NODES, node("b", annotations=register))
        allocated = {"hami.io/vgpu-devices-allocated": "GPU-1,NVIDIA,1000,0:;"}
        for name, phase in (("alive", "Running"), ("ended", "Succeeded")):
            metadata = {"name": name, "namespace": "default", "annotations": allocated}
            spec, status = {"nodeName": "b"}, {"phase": phase}
            at.front.serve(paths.pods(), {"metadata": metadata, "spec": spec, "status": status})
        verdict = at.verdict("gpus-in-use")
        assert verdict.seen == "in use by 2 claims and 1 annotated pod"
        assert verdict.details == (
            "default/one: pod p on a",
            "default/two: no pod on a",
            "default/alive: on b",
        )


def test_claims_where_nobody_serves() -> None:
    """A claim of ours on a node without an agent, and one that does not go, are left behind."""
    with world() as at:
        at.put(SLICES, published("a"))
        at.front.serve(CLAIMS, claim("one", on="a"), claim("two", on="b", driver="x.example.com"))
        assert at.verdict("claims-left").seen == (
            "1 claim with GPUs of ours, on nodes that serve them"
        )
        at.front.serve(
            CLAIMS,
            claim("three", on="gone"),
            claim("four", on="a", deletionTimestamp=ago(minutes=9)),
            claim("five", on="a", deletionTimestamp=ago(seconds=9)),
        )
        verdict = at.verdict("claims-left")
        assert verdict.status is Status.WARNING
        assert verdict.details == (
            "default/four: being deleted for more than 5 minutes",
            "default/three: allocated on gone, without an agent",
        )


def template(name: str, age: str) -> dict[str, Any]:
    """Return a template."""
    metadata = {"name": name, "namespace": "default", "creationTimestamp": age}
    return {"metadata": metadata}


def test_templates_that_nobody_uses() -> None:
    """Only templates of translated pods count, and a young one may wait for its pod."""
    with world() as at:
        at.front.serve(
            TEMPLATES,
            template(TEMPLATE, ago(seconds=9)),
            template("users-own", ago(hours=9)),
        )
        assert at.verdict("templates-left").status is Status.OK
        at.front.items[TEMPLATES] = [template(TEMPLATE, ago(hours=1))]
        verdict = at.verdict("templates-left")
        assert (verdict.status, verdict.details) == (Status.WARNING, (f"default/{TEMPLATE}",))
        entry = {"name": "gpu", "resourceClaimTemplateName": TEMPLATE}
        pod = {
            "metadata": {"name": "p", "namespace": "default"},
            "spec": {"resourceClaims": [entry]},
        }
        at.front.serve(paths.pods(), pod)
        assert at.verdict("templates-left").seen == "1 template of translated pods, all used"
