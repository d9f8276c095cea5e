"""First figures of the whole chain; printed, and never a reason to fail."""

import statistics
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.bench.figures import median, percentile, show, show_machine
from tests.cluster.scenes.audit import lines_of, requests_of
from tests.cluster.scenes.expectations import A10
from tests.cluster.scenes.kubelet_metrics import prepares
from tests.cluster.scenes.manifests import Object, claim, pod, request
from tests.cluster.scenes.stage import Stage

pytestmark = [pytest.mark.cluster, pytest.mark.bench, pytest.mark.timeout(900)]

_PODS = 30
_STAY = "cat /proc/uptime; trap 'exit 0' TERM; while true; do sleep 0.1; done"


def timed_pod(name: str, *, node: str, template: str | None) -> Object:
    """Return a pod whose container first says how long the machine is up."""
    body = pod(name, {"gpu": template} if template else {}, node=node)
    for use in body["spec"]["resourceClaims"]:
        use["resourceClaimTemplateName"] = use.pop("resourceClaimName")
    body["spec"]["containers"][0]["command"] = ["sh", "-c", _STAY]
    return body


def started_after_s(stage: Stage, body: Object) -> float:
    """Create the pod, return the time to its container's first instruction, and delete it."""
    name = str(body["metadata"]["name"])
    began_s = time.clock_gettime(time.CLOCK_BOOTTIME)
    stage.create(body)
    said = stage.log(name)
    stage.delete("Pod", name)
    return float(said.split()[0]) - began_s


def test_pod_start(stage: Stage) -> None:
    """Time from a pod's creation to its container's start, kubelet's prepares, API requests."""
    show_machine()
    stage.create(claim("share", request(memory="1Gi", cores=10, product=A10), template=True))
    audit = Path(stage.driver.cluster.state.audit_log)
    started_after_s(stage, timed_pod("first", node=stage.node, template="share"))
    kinds = {"plain": None, "share": "share"}
    took_s: dict[str, list[float]] = {kind: [] for kind in kinds}
    asked: Counter[str] = Counter()
    prepared_s: list[float] = []
    for number in range(_PODS):
        for kind, template in kinds.items():
            lines, before = lines_of(audit), prepares(stage.client, stage.node)
            body = timed_pod(f"{kind}-{number}", node=stage.node, template=template)
            took_s[kind].append(started_after_s(stage, body))
            if template:
                asked += requests_of(audit, since=lines)
                since = prepares(stage.client, stage.node)
                prepared_s.append(since.mean_since_s(before))
    release = stage.driver.cluster.options.minor
    for kind, values in took_s.items():
        note = f"{_PODS} pods, Kubernetes {release}"
        show("pod_start", f"{kind}_p50_ms", median(values) * 1000, note=note)
        show("pod_start", f"{kind}_max_ms", max(values) * 1000)
    more_s = statistics.fmean(took_s["share"]) - statistics.fmean(took_s["plain"])
    show("pod_start", "share_adds_mean_ms", more_s * 1000)
    show("pod_start", "share_p90_ms", percentile(took_s["share"], 90) * 1000)
    for share in (50, 99):
        took_ms = percentile(prepared_s, share) * 1000
        show("kubelet_prepare", f"p{share}_ms", took_ms, note=f"{len(prepared_s)} claims")
    for what, count in sorted(asked.items()):
        show("api_requests", f"{what.replace(' ', '_')}_per_claim", count / _PODS)
    show("api_requests", "all_per_claim", sum(asked.values()) / _PODS)
