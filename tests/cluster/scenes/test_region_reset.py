"""What a container leaves in its region when it is killed, and what its next run finds there.

The container's first process starts another that holds the region open and writes to it, as the
processes of HAMi-core do, and ends with it: nobody in a container can kill its first process.
"""

import time
from dataclasses import dataclass
from typing import Final

import pytest

from kube import paths
from tests.bench.figures import Goal, median, show, show_machine
from tests.cluster.scenes.expectations import A10, PRIVATE_REGION
from tests.cluster.scenes.manifests import Object, claim, pod, request
from tests.cluster.scenes.stage import Stage
from tests.patience import eventually

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

_PODS: Final = 20
# Kubernetes makes one dollar of two.
_SCRIPT: Final = f"""
uptime() {{ cut -d' ' -f1 /proc/uptime; }}
echo began $(uptime)
echo inode $(stat -c %i {PRIVATE_REGION})
echo found $(tr -d '\\000' <{PRIVATE_REGION} | wc -c)
sh -c 'exec 3<>{PRIVATE_REGION}; printf used >&3; echo $$$$ >/user; echo uses; exec sleep 999999' &
trap 'exit 0' TERM
wait $!
echo ended $(uptime)
exit 1
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What one run of the container said; times are the machine's since its start."""

    began_s: float
    inode: int
    found_bytes: int
    ended_s: float | None


def region_pod(name: str, *, node: str) -> Object:
    """Return a pod whose container uses the region of the claim *name*."""
    body = pod(name, {"gpu": name}, node=node)
    body["spec"]["containers"][0]["command"] = ["sh", "-c", _SCRIPT]
    return body


def read_run(log: str) -> Run | None:
    """Return what a container's *log* says, `None` as long as it does not use the region."""
    said = dict(line.split() for line in log.splitlines() if " " in line)
    if "uses" not in log.splitlines():
        return None
    ended = said.get("ended")
    return Run(
        began_s=float(said["began"]),
        inode=int(said["inode"]),
        found_bytes=int(said["found"]),
        ended_s=float(ended) if ended else None,
    )


def started(stage: Stage, name: str, *, runs: int) -> Run:
    """Wait until the container has started *runs* times and uses the region."""

    def is_up() -> bool:
        (status,) = stage.pod(name)["status"].get("containerStatuses") or [{}]
        return status.get("restartCount") == runs - 1 and "running" in status["state"]

    eventually(is_up)
    run = eventually(lambda: read_run(stage.log(name)))
    assert run is not None
    return run


def killed(stage: Stage, name: str) -> Run:
    """Kill the process that uses the region; return what that run of the container said."""
    stage.driver.cluster.kubectl("exec", name, "--", "sh", "-c", "kill -9 $(cat /user)")

    def whole() -> Run | None:
        (status,) = stage.pod(name)["status"]["containerStatuses"]
        if status["restartCount"] == 0:
            return None
        log = stage.client.get(paths.pods("default", name, "log"), {"previous": "true"})
        return read_run(log.decode())

    run = eventually(whole)
    assert run is not None
    return run


@pytest.mark.scene("a container that is killed finds its region empty")
def test_killed_container(stage: Stage) -> None:
    """Kubelet starts it again on the same claim; nothing of the killed run is in the region."""
    stage.create(
        claim("kept", request(memory="1Gi", cores=30, product=A10)),
        region_pod("kept", node=stage.node),
    )
    first = started(stage, "kept", runs=1)
    killed(stage, "kept")
    again = started(stage, "kept", runs=2)
    assert (first.found_bytes, again.found_bytes) == (0, 0)
    assert first.inode == again.inode
    (region,) = stage.driver.regions()
    log = stage.driver.log(stage.node).splitlines()
    assert len([line for line in log if '"region reset"' in line and region.name in line]) == 1


@pytest.mark.bench
def test_restart_race(stage: Stage) -> None:
    """Time from a container's last instruction to the first of its next run, without back-off."""
    show_machine()
    gaps_s, lost = [], 0
    for number in range(_PODS):
        name = f"race-{number}"
        stage.create(
            claim(name, request(memory="1Gi", cores=10, product=A10)),
            region_pod(name, node=stage.node),
        )
        started(stage, name, runs=1)
        # Where in its second of looking kubelet is when it ends shall vary.
        time.sleep(number / _PODS)
        ended_s = killed(stage, name).ended_s
        again = started(stage, name, runs=2)
        assert ended_s is not None
        gaps_s.append(again.began_s - ended_s)
        lost += again.found_bytes > 0
        stage.delete("Pod", name)
        stage.delete("ResourceClaim", name)
    note = f"{_PODS} containers, Kubernetes {stage.driver.cluster.options.minor}"
    show("restart_race", "kubelet_restarts_after_min_ms", min(gaps_s) * 1000, note=note)
    show("restart_race", "kubelet_restarts_after_p50_ms", median(gaps_s) * 1000)
    show("restart_race", "regions_not_reset_in_time", lost, Goal(goal=0, floor=0))
