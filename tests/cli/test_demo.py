"""The demo runs as a user runs it, and notices when something is not as a manifest asks."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from cli.demo.checking import Evidence, differences
from cli.demo.reading import Given, PodState, Published
from cli.demo.scenes import SCENES, PodWish, Scene, Wish, examples_directory, manifests, pod_wishes
from gpu import names
from sim.runtime.container import ContainerView, DeviceView, PodRef


def gpu() -> Published:
    """Return a GPU that is published for sharing."""
    return Published(
        node="node-a",
        name="gpu-1",
        product="NVIDIA A10",
        mode=names.MODE_SHARED,
        profile="unknown",
        uuid="GPU-1",
        parent_uuid="GPU-1",
        pci_bus_id="0000:01:00.0",
        memory_mib=23028,
        shares=10,
    )


def whole_gpu_evidence() -> Evidence:
    """Return a pod that got the whole GPU that it asked for."""
    device = gpu()
    wish = Wish(
        request="gpu", device_class=names.CLASS_WHOLE, count=1, memory_mib=None, cores_percent=0
    )
    given = Given(
        claim="app-gpu",
        request="gpu",
        node="node-a",
        device="gpu-1",
        memory_mib=device.memory_mib,
        cores_percent=0,
        shares=1,
    )
    nodes = ("/dev/nvidiactl", "/dev/nvidia0")
    return Evidence(
        wish=PodWish(name="app", fits=True, wishes=(wish,)),
        state=PodState(
            name="app",
            uid="u",
            phase="Running",
            node="node-a",
            why_pending="",
            claims=("app-gpu",),
        ),
        given=(given,),
        devices={("node-a", "gpu-1"): device},
        container=ContainerView(
            pod=PodRef(namespace="default", name="app", uid="u"),
            container="app",
            image="",
            env={},
            mounts=(),
            devices=tuple(
                DeviceView(path=path, host_path=path, type="c", major=195, minor=0)
                for path in nodes
            ),
        ),
        granted_mib=device.memory_mib,
    )


@pytest.mark.timeout(180)
def test_the_demo_shows_every_example_as_asked() -> None:
    """All pods that fit run with what their manifests ask, the last waits, nothing is left."""
    finished = subprocess.run(
        [sys.executable, "-m", "cli.main", "demo", "--json"],
        capture_output=True,
        check=False,
        text=True,
    )
    assert finished.returncode == 0, finished.stderr
    report = json.loads(finished.stdout)
    phases = {pod["name"]: pod["phase"] for pod in report["pods"]}
    fitting = [wish.name for scene in SCENES if scene.fits for wish in pod_wishes(scene)]
    assert {phases[name] for name in fitting} == {"Running"}
    assert phases["does-not-fit"] == "Pending"
    assert report["ok"]
    assert report["leftovers"] == []
    assert report["detail"]["env"]["CUDA_DEVICE_MEMORY_LIMIT_0"] == "3000m"
    assert report["detail"]["env"]["CUDA_DEVICE_SM_LIMIT_0"] == "30"
    assert report["detail"]["placeholder"]
    legacy = {row["pod"]: row for row in report["legacy"]}
    assert legacy["legacy-share"]["asks"] == ["share.gpuslice.io: memory 3000Mi, cores 30"]
    assert len(legacy["legacy-percentage"]["asks"]) > 1
    pair = {legacy[f"legacy-pair-{number}"]["template"] for number in (0, 1)}
    assert len(pair) == 1
    assert all(row["template"].startswith("gpuslice-") for row in legacy.values())
    ten = next(row for row in report["devices"] if row["product"] == "NVIDIA A10")
    assert len(ten["pods"]) == 10
    assert ten["shares"] == {"used": 10, "total": 10}
    older = {row["pod"]: row for row in report["older"]}
    assert {name for name, row in older.items() if not row["node"]} == {"older-large"}
    assert "CardInsufficientMemory" in older["older-large"]["why_pending"]
    assert len(older["older-pair"]["devices"]) == 2


@pytest.mark.timeout(180)
def test_a_kept_demo_ends_clean_when_it_is_interrupted() -> None:
    """Ctrl-C reaches the whole group; still all pods are deleted and no file is left."""
    with subprocess.Popen(
        [sys.executable, "-m", "cli.main", "demo", "--keep"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
        text=True,
    ) as demo:
        try:
            assert demo.stderr is not None
            line = next(line for line in demo.stderr if "KUBECONFIG=" in line)
            kubeconfig = Path(line.partition("KUBECONFIG=")[2].strip())
            assert kubeconfig.exists()
            os.killpg(demo.pid, signal.SIGINT)
            said = demo.stderr.read()
        except BaseException:
            # Whoever leaves the block waits for the end of it.
            demo.kill()
            raise
    assert demo.returncode == 0, said
    assert "everything is as asked" in said
    assert not kubeconfig.exists()


def test_a_pod_that_got_what_it_asked_has_no_differences() -> None:
    """A whole GPU without limits is as asked."""
    assert differences(whole_gpu_evidence()) == []


def test_another_amount_than_asked_is_told() -> None:
    """Memory, cores, shares and the count of devices are compared with the manifest."""
    evidence = whole_gpu_evidence()
    given = replace(evidence.given[0], memory_mib=1000, cores_percent=5, shares=2)
    told = " ".join(differences(replace(evidence, given=(given,))))
    assert "1000 MiB and not 23028" in told
    assert "5 % and not 0" in told
    assert "2 shares and not 1" in told
    assert "0 devices and not 1" in " ".join(differences(replace(evidence, given=())))


def test_limits_that_do_not_belong_there_are_told() -> None:
    """A whole GPU with a limit, or a container that sees too many GPUs, is not as asked."""
    evidence = whole_gpu_evidence()
    assert evidence.container is not None
    limited = replace(evidence.container, env={"CUDA_DEVICE_MEMORY_LIMIT_0": "5m"})
    assert "limits in the container" in " ".join(differences(replace(evidence, container=limited)))
    blind = replace(evidence.container, devices=())
    told = " ".join(differences(replace(evidence, container=blind)))
    assert "not those of 1 GPUs" in told
    assert "/dev/nvidiactl is missing" in told


def test_metrics_that_say_something_else_are_told() -> None:
    """The agent's own sum must be what the API server has."""
    told = differences(replace(whole_gpu_evidence(), granted_mib=1))
    assert told == ["the agent's metrics say 1 MiB and not 23028"]


def test_a_pod_that_runs_although_it_cannot_fit_is_told() -> None:
    """The example that cannot fit must be pending, with a reason and without a device."""
    evidence = whole_gpu_evidence()
    told = " ".join(differences(replace(evidence, wish=replace(evidence.wish, fits=False))))
    assert "although it cannot fit" in told
    assert "without a reason" in told


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.folder)
def test_each_example_explains_itself(scene: Scene) -> None:
    """Every scene is a folder with a README, a template and pods; HAMi's have no template."""
    folder = scene.folder
    assert (examples_directory() / folder / "README.md").read_text().startswith("# ")
    kinds = {each["kind"] for each in manifests(folder)}
    assert kinds == ({"Pod"} if scene.legacy else {"ResourceClaimTemplate", "Pod"})


def test_what_a_translation_leaves_is_told() -> None:
    """A pod that asked in HAMi's words keeps no limit and has a claim."""
    evidence = whole_gpu_evidence()
    limits = {"nvidia.com/gpu": "1"}
    legacy = replace(evidence, wish=replace(evidence.wish, limits=limits))
    kept = replace(evidence.state, resources=frozenset(limits))
    told = " ".join(differences(replace(legacy, state=kept)))
    assert "limits ['nvidia.com/gpu'] are left in the pod" in told
    assert "has no claim" in told
    assert differences(replace(legacy, state=replace(evidence.state, templates=("a",)))) == []


def test_percentage_is_of_the_device_that_was_given() -> None:
    """Half of a GPU is half of what the device has, rounded down."""
    evidence = whole_gpu_evidence()
    wish = replace(evidence.wish.wishes[0], memory_percent=50)
    half = replace(evidence, wish=replace(evidence.wish, wishes=(wish,)))
    assert "23028 MiB and not 11514" in " ".join(differences(half))
