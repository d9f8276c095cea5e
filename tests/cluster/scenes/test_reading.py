"""Tests of how scenes read what others say, without a cluster."""

import json
from pathlib import Path

import pytest

from tests.cluster.scenes.audit import AGENT, events_of, requests_of
from tests.cluster.scenes.kubelet_metrics import Prepares, read_prepares
from tests.cluster.scenes.manifests import EXAMPLES, example
from tests.cluster.scenes.report import ReportError, read_report

_LOG = """\
@env
PATH=/bin
CUDA_DEVICE_MEMORY_LIMIT_0=3000m
CUDA_DEVICE_SM_LIMIT_0=30
@devices
/dev/nvidia1 c3 1
@mounts
31 25 0:48 /region.cache /run/gpuslice/region.cache rw,nosuid,nodev - tmpfs tmpfs rw
@preload
/usr/local/vgpu/libvgpu.so
@region
2008953
@writable
/run/gpuslice/region.cache
@end
"""


def test_report_is_read() -> None:
    """All parts of a container's report are read, device numbers from hexadecimal."""
    report = read_report(_LOG)
    assert report.limits() == (("3000m", "30"),)
    assert report.devices == {"/dev/nvidia1": (195, 1)}
    assert report.mounts["/run/gpuslice/region.cache"].source == "0:48 /region.cache"
    assert report.mounts["/run/gpuslice/region.cache"].options == {"rw", "nosuid", "nodev"}
    assert (report.region_bytes, report.preload) == (2008953, "/usr/local/vgpu/libvgpu.so")
    assert report.writable == {"/run/gpuslice/region.cache"}


def test_half_a_report_is_none() -> None:
    """A log that ends early is not taken for a container that got little."""
    with pytest.raises(ReportError):
        read_report(_LOG.removesuffix("@end\n"))


def test_prepare_is_read_from_kubelet() -> None:
    """Only our driver's calls to prepare count, and only those since the earlier reading."""
    name = "dra_grpc_operations_duration_seconds"
    lines = [f"# TYPE {name} histogram"]
    for driver, method, count, sum_s in (
        ("gpuslice.io", "/v1.DRAPlugin/NodePrepareResources", 3, 0.3),
        ("gpuslice.io", "/v1.DRAPlugin/NodeUnprepareResources", 5, 9.0),
        ("gpu.example.com", "/v1.DRAPlugin/NodePrepareResources", 7, 9.0),
    ):
        labels = f'driver_name="{driver}",method_name="{method}"'
        lines += [
            f'{name}_bucket{{{labels},le="+Inf"}} {count}',
            f"{name}_sum{{{labels}}} {sum_s}",
            f"{name}_count{{{labels}}} {count}",
        ]
    found = read_prepares("\n".join(lines) + "\n")
    assert found == Prepares(count=3, sum_s=0.3)
    assert found.mean_since_s(Prepares(count=1, sum_s=0.1)) == pytest.approx(0.1)


def test_requests_are_counted_by_user(tmp_path: Path) -> None:
    """Only the agent's own requests count, from a line on."""
    log = tmp_path / "audit.jsonl"
    entries = [
        {"user": {"username": user}, "verb": verb, "requestURI": "/x", "objectRef": reference}
        for user, verb, reference in (
            (AGENT, "get", {"resource": "resourceclaims"}),
            ("somebody", "get", {"resource": "resourceclaims"}),
            (AGENT, "get", {"resource": "resourceclaims"}),
            (AGENT, "get", {}),
        )
    ]
    log.write_text("".join(f"{json.dumps(each)}\n" for each in entries))
    assert requests_of(log, since=1) == {"get resourceclaims": 1, "get /x": 1}
    assert len(list(events_of(log))) == 3


@pytest.mark.parametrize("folder", sorted(path.name for path in EXAMPLES.iterdir()))
def test_examples_keep_all_but_three_things(folder: str) -> None:
    """A patched example asks for what the file asks for: image, command and node are new."""
    allowed = {"name", "image", "imagePullPolicy", "command", "resources"}
    for each in example(folder, node="node-1"):
        if each["kind"] == "Pod":
            assert each["spec"]["nodeSelector"] == {"kubernetes.io/hostname": "node-1"}
            assert all(set(one) <= allowed for one in each["spec"]["containers"])
            # Those in HAMi's words have limits, of which the webhook makes claims.
            asks = "limits" if folder.startswith(("legacy-", "older-")) else "claims"
            assert all(one["resources"][asks] for one in each["spec"]["containers"])
