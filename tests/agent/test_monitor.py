"""The monitor beside claims: metrics of what the real library wrote, and feedback to it."""

from pathlib import Path

from hami.monitor.regions.layouts import V1_2
from tests.agent.control_plane import Claim, config, share
from tests.agent.process import Agent
from tests.agent.scene import Scene
from tests.hami.monitor.regionfiles import peek, peek_recent, placed, poke
from tests.patience import eventually
from tests.region_user import Use, using

FIRST = "GPU-aa000000-1111-2222-3333-000000bb0000"
SECOND = "GPU-aa000001-1111-2222-3333-000000bb0001"
GPUS = f"gpus: [{{profile: l4, uuid: {FIRST}}}, {{profile: a10, uuid: {SECOND}}}]"
QUICK = ("--monitor-interval-s=0.1",)
REGION = "b_two_gpus_live"
"""Of one process on both GPUs; 768 MiB on the first."""
PID, HOST_PID = 25842, 125842
USED_BYTES = 805306368


def run(stage: Scene, priority: int) -> tuple[Claim, str, str]:
    """Run a pod whose claim has a share of each GPU; return the claim, the pod's UID, a share."""
    results = [share(stage.host.device(index)) for index in (0, 1)]
    claim = stage.control.claim(*results, configs=[config(priority=priority)])
    uid = stage.control.run_pod(claim)
    api = stage.control.server.api
    pod = stage.control.run(api.get("pods", f"pod-of-{claim.name}", "default"))
    running = {"name": "main", "image": "x", "imageID": "x", "ready": True, "restartCount": 0}
    statuses = [{**running, "state": {"running": {}}}]
    pod["status"] = {"phase": "Running", "containerStatuses": statuses}
    stage.control.run(api.update("pods", pod, subresource="status"))
    assert stage.kubelet.prepare(claim).error == ""
    return claim, uid, results[0]["shareID"]


def live(stage: Scene, pod_uid: str, host_pid: int) -> None:
    """Have a process of a pod in the host's /proc."""
    place = stage.host.files / "proc" / str(host_pid)
    place.mkdir(parents=True)
    fields = " ".join(["S", *["0"] * 18, "100", *["0"] * 30])
    (place / "stat").write_text(f"{host_pid} (x) {fields}\n")
    (place / "status").write_text(f"Name:\tx\nNSpid:\t{host_pid}\t{PID}\n")
    (place / "cgroup").write_text(f"0::/kubepods.slice/kubepods-pod{pod_uid.replace('-', '_')}\n")
    (place / "comm").write_text("python3\n")


def write_region(path: Path, host_pid: int) -> None:
    """Have the region be what the library wrote, of this process."""
    placed(REGION, path)
    poke(path, V1_2.slots + 4, host_pid)


def values(agent: Agent, name: str) -> dict[tuple[str, ...], float]:
    """Return the values of a metric."""
    return agent.metrics().get(name, {})


def test_metrics_name_the_claim_and_its_container(stage: Scene) -> None:
    """Claim, share, GPU, pod and container stand beside what is used of what was granted."""
    stage.host.set_gpus(GPUS)
    agent = stage.started(*QUICK)
    claim, uid, share_id = run(stage, 0)
    region = stage.host.region(claim.uid)
    live(stage, uid, HOST_PID)
    with using(region, Use.READS_MAPPED):
        write_region(region, HOST_PID)
        # In the order of the labels' names: claim, container, namespace, pod, share, GPU.
        labels = (claim.name, "main", "default", f"pod-of-{claim.name}", share_id, FIRST)
        used = "gpuslice_share_memory_used_bytes"
        eventually(lambda: values(agent, used).get(labels) == USED_BYTES)
        assert values(agent, "gpuslice_share_memory_granted_bytes")[labels] == 3000 * 2**20


def test_feedback_is_given_to_claims_and_taken_back_at_the_end(stage: Scene) -> None:
    """A claim of low priority waits for one of high priority, and for no agent that is gone."""
    stage.host.set_gpus(GPUS)
    agent = stage.started(*QUICK)
    high, low = run(stage, 0), run(stage, 1)
    regions = []
    for number, (claim, uid, _) in enumerate((high, low)):
        live(stage, uid, HOST_PID + number)
        regions.append(stage.host.region(claim.uid))
    with using(regions[0], Use.READS_MAPPED), using(regions[1], Use.READS_MAPPED):
        for number, region in enumerate(regions):
            write_region(region, HOST_PID + number)

        def waits() -> bool:
            poke(regions[0], V1_2.recent_kernel, 2)
            return peek_recent(regions[1]) == -1

        eventually(waits)
        # Whoever has the GPUs to itself need not keep to its limit.
        assert [peek(region, V1_2.utilization_switch) for region in regions] == [0, 1]

        assert agent.terminate() == 0

        assert peek_recent(regions[1]) >= 0
        assert [peek(region, V1_2.utilization_switch) for region in regions] == [1, 1]
