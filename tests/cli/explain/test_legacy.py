"""Why a pod of HAMi's path waits: the tokens, the amounts behind them, and who has what."""

from datetime import timedelta

import pytest

from cli.explain import protocol
from cli.explain.errors import InputError
from cli.explain.legacy import Terms, explain_legacy
from cli.explain.legacywords import all_amounts, amounts
from extender.accounting import Use
from hami.deviceconfig import DeviceConfig
from hami.vendors import from_sections
from kube.objects import ObjectKey
from sim.explain.model import DeviceReason, Holder, Verdict
from tests.cli.explain.legacyworld import (
    GIVEN,
    NAMESPACE,
    NOW,
    NVIDIA_ONLY,
    POD,
    SCHEDULER,
    USE_TYPE,
    busy_cluster,
    legacy,
    material,
    node,
    quota,
    running,
    text_of,
    want,
)
from tests.extender.statemachine import container, gpu
from tests.sim.explain.world import Json, device_class

SCREEN = 45

FULL = """\
pod team/want is pending: no node can serve it (rules of HAMi's annotation protocol)
  asked: container main: 1 device of type NVIDIA, memory 8000 MiB, cores 40

nodes (5 of 5 refuse)
  a: CardInsufficientMemory on 1 device; CardTypeMismatch on 1 device
  b: CardInsufficientMemory on 1 device
  cordoned: NodeUnschedulable: true
  cpu-1, cpu-2: NodeUnregistered

devices of a
  GPU-a0: CardInsufficientMemory: asked 8000 MiB; free 6384 of 16384 MiB; \
held by pod team/one 10000 MiB 30 cores
  GPU-a1: CardTypeMismatch: is NVIDIA A10 hami-core; the pod says nvidia.com/use-gputype=T4

devices of b
  GPU-b0: CardInsufficientMemory: asked 8000 MiB; free 384 of 16384 MiB; \
held by pod team/two 16000 MiB 20 cores

smallest change with which it fits
  container main asks for nvidia.com/gpumem 6384 instead of 8000 [on a]
  or: the pod is without the annotation nvidia.com/use-gputype=T4 [on a]
"""

FITS = """\
pod team/want fits on node a (rules of HAMi's annotation protocol)
  asked: container main: 1 device of type NVIDIA, memory 1000 MiB
  gets: container main: NVIDIA/a/GPU-a0, memory 1000 MiB, cores 0
"""


def devices(*items: Json, config: DeviceConfig = NVIDIA_ONLY) -> list[DeviceReason]:
    """Return all device reasons."""
    return [each for reason in legacy(*items, config=config).nodes for each in reason.devices]


def test_a_cluster_without_room() -> None:
    """A person reads on one screen what stands against each device, and what would help."""
    assert text_of(legacy(*busy_cluster())) == FULL


def test_a_pod_that_fits() -> None:
    """Who asks too early reads which GPU the pod would get."""
    said = legacy(node("a", gpu("GPU-a0")), want(container(gpu=1, gpumem=1000)))
    assert (said.verdict, said.node) == (Verdict.FITS, "a")
    assert text_of(said) == FITS


@pytest.mark.parametrize(
    ("device", "held", "limits", "notes", "code", "said"),
    [
        ({}, "10000,0", {"gpumem": 7000}, {}, "CardInsufficientMemory", "free 6384 of 16384 MiB"),
        (
            {},
            "1,70",
            {"gpumem": 1, "gpucores": 40},
            {},
            "CardInsufficientCore",
            "free 30 of 100 cores",
        ),
        ({}, "1,100", {"gpumem": 1}, {}, "CardComputeUnitsExhausted", "free 0 of 100 cores"),
        ({"count": 1}, "1,1", {}, {}, "CardTimeSlicingExhausted", "1 of 1 shares are taken"),
        (
            {},
            "1,1",
            {"gpumem": 1},
            {"hami.io/gpu-scheduler-policy": "mutex"},
            "ExclusiveDeviceAllocateConflict",
            "1 shares are taken",
        ),
        ({}, "1,1", {}, {USE_TYPE: "A10"}, "CardTypeMismatch", f"the pod says {USE_TYPE}=A10"),
        (
            {},
            "1,1",
            {},
            {"nvidia.com/use-gpuuuid": "GPU-z"},
            "CardUuidMismatch",
            "the pod says nvidia.com/use-gpuuuid=GPU-z",
        ),
        ({"health": False}, "1,1", {}, {}, "CardNotHealth", ""),
    ],
)
def test_a_device_says_what_it_lacks(
    device: Json, held: str, limits: dict[str, int], notes: dict[str, str], code: str, said: str
) -> None:
    """Each check of a device has HAMi's token for a code, and the amounts or texts behind it."""
    (found,) = devices(
        node("a", gpu("GPU-a", **device)),
        running("one", "a", f"GPU-a,{held}"),
        want(container("main", gpu=1, **limits), notes=notes),
    )
    assert (found.refusal.code, found.refusal.limit) == (code, said)
    assert (found.request, found.driver, found.pool) == ("main", "NVIDIA", "a")


def test_who_holds_most_is_told_first() -> None:
    """Pods of other namespaces hold devices as well, and each is named with what it has."""
    (found,) = devices(
        node("a", gpu("GPU-a")),
        running("one", "a", "GPU-a,4000,10"),
        running("two", "a", "GPU-a,9000,20", namespace="other"),
        want(container(gpu=1, gpumem=9000)),
    )
    assert found.holders == (
        Holder(claim="", pods=("other/two",), amount="9000 MiB 20 cores"),
        Holder(claim="", pods=("team/one",), amount="4000 MiB 10 cores"),
    )


def test_a_cordoned_device_is_told() -> None:
    """The node's annotation keeps one GPU from new pods, the other from this one by its size."""
    cordon = {"hami.io/device-cordon": "GPU-a"}
    found = devices(
        node("a", gpu("GPU-a"), gpu("GPU-b", devmem=100), notes=cordon),
        want(container(gpu=1, gpumem=1000)),
    )
    assert [each.refusal.code for each in found] == ["CardCordoned", "CardInsufficientMemory"]


def test_devices_that_are_enough_each_may_be_too_few_together() -> None:
    """A GPU that fits by itself says that more are asked for."""
    found = devices(
        node("a", gpu("GPU-a"), gpu("GPU-b")),
        running("one", "a", "GPU-b,16000,0"),
        want(container(gpu=2, gpumem=1000)),
    )
    assert [(each.refusal.code, each.refusal.value) for each in found] == [
        ("AllocatedCardsInsufficientRequest", "asked 2 together"),
        ("CardInsufficientMemory", "asked 1000 MiB"),
    ]


def test_a_container_finds_what_those_before_it_leave() -> None:
    """The second container is refused, beside what the first would have."""
    said = legacy(
        node("a", gpu("GPU-a")),
        want(container("first", gpu=1, gpumem=10000), container("second", gpu=1, gpumem=9000)),
    )
    (found,) = said.nodes[0].devices
    assert found.request == "second"
    assert found.refusal.limit == "free 6384 of 16384 MiB"
    assert [each.request for each in said.asked] == ["first", "second"]


def test_an_init_container_leaves_all_that_it_had() -> None:
    """What ends before the next container starts is free again."""
    (found,) = devices(
        node("a", gpu("GPU-a")),
        want(container(gpu=1, gpumem=17000), inits=(container("init", gpu=1, gpumem=16000),)),
    )
    assert found.refusal.limit == "free 16384 of 16384 MiB"


def test_a_node_says_that_it_has_too_few_devices() -> None:
    """More GPUs than there are is the node's reason, and no device's."""
    (found,) = legacy(node("a", gpu("GPU-a")), want(container(gpu=3, gpumem=10))).nodes
    assert (found.refusal.code, found.devices) == ("NodeInsufficientDevice", ())
    assert found.refusal.value == "asked 3 NVIDIA, each 10 MiB"


def test_a_node_whose_books_cannot_be_read_is_closed() -> None:
    """A pod with a spoiled annotation closes its node, and its end would open it."""
    spoiled = running("odd", "a", "GPU-a,1,1")
    spoiled["metadata"]["annotations"][GIVEN] = "nonsense"
    said = legacy(node("a", gpu("GPU-a")), spoiled, want(container(gpu=1)))
    (found,) = said.nodes
    assert found.refusal.code == "NodeClosed"
    assert "pod team/odd: cannot read its allocation" in found.refusal.value
    (change,) = said.changes
    assert (change.code, change.sentence) == ("WaitForPod", "pod team/odd ends, which closes it")


@pytest.mark.parametrize(
    ("register", "said"),
    [("nonsense", "cannot read what it registers"), (None, "no sign of life")],
)
def test_what_a_node_registers_may_be_unusable(register: str | None, said: str) -> None:
    """A text that nobody can read, and a plugin that is dead, are told as such."""
    found = node("a", gpu("GPU-a"), allocatable=0)
    if register is not None:
        found["metadata"]["annotations"]["hami.io/node-nvidia-register"] = register
    (reason,) = legacy(found, want(container(gpu=1))).nodes
    assert reason.refusal.code == "RegistrationUnusable"
    assert said in reason.refusal.value


def test_a_sign_of_life_is_as_old_as_the_files() -> None:
    """What was a live plugin when it was printed stays one, however long ago that was."""
    stamp = (NOW - timedelta(seconds=20)).strftime("%Y.%m.%d %H:%M:%S")
    silent = node(
        "a",
        gpu("GPU-a"),
        allocatable=0,
        notes={"hami.io/node-handshake": f"Reported {stamp}"},
    )
    assert legacy(silent, want(container(gpu=1))).verdict is Verdict.FITS


def test_a_quota_says_what_it_leaves() -> None:
    """The namespace's bound is a reason for every node, with what is left of it."""
    said = legacy(
        node("a", gpu("GPU-a"), gpu("GPU-b")),
        running("one", "a", "GPU-a,3000,10"),
        quota(gpumem="5000", gpucores="100"),
        want(container(gpu=1, gpumem=4000, gpucores=20)),
    )
    (reason,) = said.reasons
    assert reason.code == "ResourceQuotaNotFit"
    assert reason.value == "nvidia.com/gpumem: asked 4000 MiB"
    assert reason.limit == "left 2000 MiB in namespace team"
    assert {each.refusal.code for each in said.nodes[0].devices} == {"ResourceQuotaNotFit"}
    assert said.changes[0].after == "2000"


def test_a_refused_request_is_told_with_its_refusals() -> None:
    """What cannot be read is told as the webhook would, and no node is looked at."""
    said = legacy(node("a", gpu("GPU-a")), want(container(gpu=1, gpucores=500, gpumem=-1)))
    assert said.verdict is Verdict.PENDING
    assert (said.nodes, said.changes) == ((), ())
    assert {each.field for each in said.reasons} == {
        "spec.containers{main}.resources.limits[nvidia.com/gpucores]",
        "spec.containers{main}.resources.limits[nvidia.com/gpumem]",
    }
    assert "no single change" not in text_of(said)


@pytest.mark.parametrize("scheduler", [None, "default-scheduler", "mine"])
def test_another_scheduler_is_a_reason(scheduler: str | None) -> None:
    """The protocol decides nothing for a pod that the extender is never asked about."""
    items = node("a", gpu("GPU-a")), want(container(gpu=1), scheduler=scheduler)
    said = legacy(*items)
    (reason,) = said.reasons
    assert (reason.code, reason.value) == ("OtherScheduler", scheduler or "default-scheduler")
    (change,) = said.changes
    assert (change.code, change.after, change.node) == ("NameScheduler", SCHEDULER, "a")
    assert "the pod is created for scheduler hami-scheduler [on a]" in text_of(said)


def test_a_gated_pod_waits_for_its_gates() -> None:
    """No scheduler tries it, and it would fit."""
    pod = want(container(gpu=1))
    pod["spec"]["schedulingGates"] = [{"name": "example.com/later"}]
    said = legacy(node("a", gpu("GPU-a")), pod)
    assert [each.code for each in said.reasons] == ["SchedulingGated"]
    assert said.message == "pod team/want is pending, and would fit on node a"


def test_without_any_devices_a_device_plugin_decides() -> None:
    """Where no node speaks the protocol and no scheduler of it is named, nothing is made up."""
    cluster = material([node("a"), want(container(gpu=1), scheduler=None)])
    pod = cluster.snapshot.pods[ObjectKey(NAMESPACE, POD)]
    with pytest.raises(InputError, match="a device plugin decides about it"):
        explain_legacy(cluster, pod, Terms(config=NVIDIA_ONLY, scheduler_name=SCHEDULER))


def test_other_vendors_follow_their_own_rules() -> None:
    """With HAMi's configuration the devices of all its vendors are explained."""
    config = DeviceConfig(vendors=from_sections({}, ascend=True))
    chip = (
        '[{"id":"npu-0","count":4,"devmem":65536,"devcore":20,"type":"Ascend910B3","health":true}]'
    )
    server = node("a", notes={"hami.io/node-register-Ascend910B3": chip})
    server["status"]["allocatable"] = {"huawei.com/Ascend910B3": "4"}
    limits = {"huawei.com/Ascend910B3": "2"}
    asking = {"name": "main", "resources": {"limits": limits}}
    (found,) = legacy(server, want(asking), config=config).nodes
    assert found.refusal.code == "NodeInsufficientDevice"
    assert found.refusal.value.startswith("asked 2 Ascend910B3")


def test_cores_that_are_a_mask_are_counted() -> None:
    """AWS Neuron's cores are bits, and nobody wants to read those."""
    uses = {"d0": Use(slots=1, cores=0b10), "d1": Use(slots=1, cores=0b11)}
    assert amounts(uses["d1"], "AWSNeuron") == "2 cores"
    assert all_amounts({"AWSNeuron": uses}) == "3 cores"
    assert amounts(Use(slots=1), "Vastai") == "1 share"


def test_a_pod_with_claims_is_not_the_protocols() -> None:
    """Translated pods have claims, and classes may serve HAMi's names: both go by claims."""
    snapshot = material([node("a", gpu("GPU-a"))]).snapshot
    translated = want(container(gpu=1))
    assert protocol.decides(translated, snapshot, NVIDIA_ONLY)
    translated["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": "made"}]
    assert not protocol.decides(translated, snapshot, NVIDIA_ONLY)
    served = device_class("share", extendedResourceName="nvidia.com/gpu")
    with_class = material([node("a", gpu("GPU-a")), served]).snapshot
    assert not protocol.decides(want(container(gpu=1)), with_class, NVIDIA_ONLY)
    assert not protocol.decides(want(container()), snapshot, NVIDIA_ONLY)


@pytest.mark.parametrize(
    ("phase", "notes"),
    [
        ("success", ()),
        (
            "allocating",
            ("its device plugin has not handed the devices out: hami.io/bind-phase is allocating",),
        ),
    ],
)
def test_a_placed_pod_has_what_is_written_on_it(phase: str, notes: tuple[str, ...]) -> None:
    """A pod with a node is told with its devices, and whether the plugin has done its part."""
    placed = running("one", "a", "GPU-a,3000,10")
    placed["metadata"]["annotations"]["hami.io/bind-phase"] = phase
    said = legacy(node("a", gpu("GPU-a")), placed, name="one")
    assert (said.verdict, said.node, said.notes) == (Verdict.SCHEDULED, "a", notes)
    (given,) = said.given
    assert (given.request, given.device) == ("main", "GPU-a")
    assert given.consumed == {"memory": "3000 MiB", "cores": "10"}


def test_what_an_earlier_binding_left_does_not_count_against_the_pod() -> None:
    """The pod's own annotations of a binding that failed hold nothing back from it."""
    notes = {"hami.io/vgpu-node": "a", GIVEN: "GPU-a,NVIDIA,16000,0:;"}
    said = legacy(node("a", gpu("GPU-a")), want(container(gpu=1, gpumem=16000), notes=notes))
    assert said.verdict is Verdict.FITS
    assert said.notes == ("a binding to node a was begun: hami.io/bind-phase is not set",)


def test_a_screen_is_enough() -> None:
    """Forty nodes in forty states with sixteen different devices each stay on one screen."""
    items: list[Json] = []
    for number in range(40):
        sizes = [100 + index for index in range(16)][: number % 16 + 1]
        gpus = [gpu(f"GPU-{number}-{index}", devmem=size) for index, size in enumerate(sizes)]
        taints = [{"key": f"taint-{number}", "effect": "NoSchedule"}]
        items.append(node(f"n{number:02}", *gpus, spec={"taints": taints[: number % 2]}))
    containers = [container(f"c{number}", gpu=1, gpumem=90000) for number in range(12)]
    lines = text_of(legacy(*items, want(*containers))).splitlines()
    assert len(lines) <= SCREEN
    assert max(len(line) for line in lines) < 400
    assert "no single change was found with which it fits" in lines
