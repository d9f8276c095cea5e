"""Tests of the decision about a new pod: what is looked at, in which order, and what is said."""

import copy
from collections.abc import Mapping
from dataclasses import replace

import pytest

from gpu.refusal import Refusal
from hami.deviceconfig import DeviceConfig, NvidiaConfig
from tests.webhook.admitting import NAMESPACE, Door, KnownCluster, KnownQuota, admitted
from tests.webhook.translating import a_container, a_pod, limits
from webhook import quotaverdict
from webhook.podsettings import PodRules
from webhook.requestannotation import ANNOTATION
from webhook.templatecontent import expected_templates


def test_a_share_becomes_a_claim() -> None:
    """On a cluster with claims the pod names a template, and the scheduler stays."""
    pod = a_pod(a_container(gpu=1, gpumem=3000, cores=30), schedulerName="default-scheduler")
    door = Door()
    found = admitted(pod, door.ask(pod))
    (entry,) = found["spec"]["resourceClaims"]
    assert entry["resourceClaimTemplateName"].startswith("gpuslice-")
    assert found["spec"]["containers"][0]["resources"]["limits"] == {}
    assert found["spec"]["schedulerName"] == "default-scheduler"
    ((valid, translation),) = door.quota.asked
    assert valid.requests[0].nvidia is not None
    assert translation is not None


def test_the_second_question_changes_nothing() -> None:
    """A pod that comes back after other webhooks is left as it is."""
    pod = a_pod(a_container(gpu=1, gpumem=3000))
    door = Door()
    found = admitted(pod, door.ask(pod))
    again = door.ask(found)
    assert again.allowed
    assert again.patch == ()
    assert len(door.quota.asked) == 1


@pytest.mark.parametrize("claims_serve", [True, False])
def test_the_second_question_finds_what_the_first_one_wrote(*, claims_serve: bool) -> None:
    """Variables of the site are no attempt on the limits, and no container is hidden its claim."""
    nvidia = NvidiaConfig(gpu_core_policy="force", overwrite_env=True, runtime_class_name="nvidia")
    door = Door(claims_serve=claims_serve, config=DeviceConfig(nvidia=nvidia))
    asked = a_container(gpu=1, gpumem=3000, cores=30, priority=1)
    asked["env"] = [{"name": "CUDA_TASK_PRIORITY", "value": "1"}]
    pod = a_pod(asked, a_container("plain"))
    found = admitted(pod, door.ask(pod))
    hidden = {"name": "NVIDIA_VISIBLE_DEVICES", "value": "none"}
    main, plain = found["spec"]["containers"]
    assert hidden in plain["env"]
    assert hidden not in main["env"]
    again = door.ask(found)
    assert again.allowed, again.message
    assert again.patch == ()


def test_an_older_cluster_prepares_the_pod_for_its_scheduler() -> None:
    """Without claims the pod keeps its limits and goes to the other scheduler."""
    pod = a_pod(a_container(gpu=1), schedulerName="default-scheduler")
    door = Door(claims_serve=False)
    found = admitted(pod, door.ask(pod))
    assert found["spec"]["schedulerName"] == "hami-scheduler"
    assert found["spec"]["containers"][0]["resources"]["limits"] == limits(gpu=1, cores=100)
    ((_, translation),) = door.quota.asked
    assert translation is None


def test_another_scheduler_is_left_alone_with_a_warning() -> None:
    """On an older cluster a pod of another scheduler is not touched, and its author hears why."""
    pod = a_pod(a_container(gpu=1, gpumem=3000), schedulerName="volcano")
    door = Door(claims_serve=False)
    verdict = door.ask(pod)
    assert verdict.allowed
    assert verdict.patch == ()
    assert any("scheduler volcano" in each for each in verdict.warnings)
    assert not door.quota.asked
    # Claims are served by whatever scheduler there is.
    assert Door().ask(pod).patch


@pytest.mark.parametrize("claims_serve", [True, False, None])
def test_a_pod_without_devices_is_none_of_our_business(*, claims_serve: bool | None) -> None:
    """It is allowed as it is, privileged or bound, even before the cluster is known."""
    container = a_container() | {"securityContext": {"privileged": True}}
    pod = a_pod(container, nodeName="node-a")
    door = Door(claims_serve=claims_serve, view=KnownCluster(is_synced=False))
    verdict = door.ask(pod)
    assert verdict.allowed
    assert verdict.patch == ()
    assert verdict.warnings == ()
    assert not door.quota.asked


@pytest.mark.parametrize("claims_serve", [True, False])
def test_all_that_is_wrong_is_said_at_once(*, claims_serve: bool) -> None:
    """Reasons of the amounts, the pod, its variables and its annotations stand in one message."""
    first = a_container("one", gpu="500m") | {"securityContext": {"privileged": True}}
    second = a_container("two", gpu=1, cores=150)
    annotations = {"hami.io/vgpu-node": "node-a", "hami.io/device-scoring-weights": "slot=1"}
    third = a_container("three", gpu=1, gpumem=3000) | {"env": [{"name": "LD_PRELOAD"}]}
    pod = a_pod(first, second, third, annotations=annotations, nodeName="node-a")
    verdict = Door(claims_serve=claims_serve).ask(pod)
    assert not verdict.allowed
    assert verdict.code == 403
    for said in (
        "annotation hami.io/vgpu-node is written by the scheduler",
        "must be a whole number",
        "container one is privileged",
        "spec.nodeName bypasses GPU scheduling",
        "`150`",
        "slot=1",
        "env[LD_PRELOAD]",
    ):
        assert said in verdict.message, verdict.message


def test_forged_allocations_are_refused_whoever_schedules() -> None:
    """The guard comes before the choice of scheduler, and lets nobody pass."""
    pod = a_pod(
        a_container(gpu=1),
        annotations={"hami.io/vgpu-devices-allocated": "GPU-1,NVIDIA,1,0:;"},
        schedulerName="volcano",
    )
    for user in ("ann", "system:hami"):
        door = Door(claims_serve=False, node_writers=frozenset({"system:hami"}))
        assert "hami.io/vgpu-devices-allocated" in door.ask(pod, user=user).message


def test_nothing_is_decided_before_the_cluster_is_known() -> None:
    """A pod that asks for devices is sent away with a reason that is not its author's."""
    pod = a_pod(a_container(gpu=1))
    for door in (Door(claims_serve=None), Door(view=KnownCluster(is_synced=False))):
        verdict = door.ask(pod)
        assert not verdict.allowed
        assert verdict.code == 500
        assert verdict.message.startswith("NotReady")


def test_a_mirror_pod_is_left_alone() -> None:
    """A static pod runs already, whatever it says, and its mirror can have no claims."""
    annotations = {"kubernetes.io/config.mirror": "x"}
    for container in (a_container(gpu=1), a_container(gpu=1, cores=150)):
        pod = a_pod(container, annotations=annotations, nodeName="node-a")
        for claims_serve in (True, False):
            verdict = Door(claims_serve=claims_serve).ask(pod)
            assert verdict.allowed
            assert verdict.patch == ()


def test_a_template_of_another_content_is_never_used() -> None:
    """The pod is refused as long as such an object bears the name, and says which."""
    pod = a_pod(a_container(gpu=1, gpumem=3000))
    door = Door()
    found = admitted(pod, door.ask(pod))
    name = found["spec"]["resourceClaims"][0]["resourceClaimTemplateName"]
    door.view.stored_templates[name] = {"devices": {"requests": []}}
    for each in (pod, found):
        verdict = door.ask(each)
        assert not verdict.allowed
        assert verdict.message.startswith("TemplateForeign")
        assert name in verdict.message


def test_a_forged_record_of_the_request_is_refused() -> None:
    """The record that a pod brings must be what its claims say."""
    pod = a_pod(a_container(gpu=1, gpumem=3000))
    door = Door()
    found = admitted(pod, door.ask(pod))
    forged = copy.deepcopy(found)
    record = forged["metadata"]["annotations"][ANNOTATION]
    assert "3000" in record
    forged["metadata"]["annotations"][ANNOTATION] = record.replace("3000", "1")
    assert not door.ask(forged).allowed
    forged["metadata"]["annotations"][ANNOTATION] = "{"
    assert not door.ask(forged).allowed


def test_what_was_translated_is_looked_at_again() -> None:
    """Another webhook, or whoever writes claims himself, cannot add what undoes the limits."""
    pod = a_pod(a_container("a", gpu=1, gpumem=3000), a_container("b", gpu=1, gpumem=3000))
    door = Door()
    found = admitted(pod, door.ask(pod))
    first, second = found["spec"]["containers"]
    first["env"] = [{"name": "LD_PRELOAD", "value": "x"}]
    first["securityContext"] = {"privileged": True}
    second["resources"]["claims"] = first["resources"]["claims"]
    verdict = door.ask(found)
    assert not verdict.allowed
    for code in ("LimitVariable", "PrivilegedContainer", "ShareUsedByManyContainers"):
        assert code in verdict.reasons


def test_quota_is_asked_last_and_counts() -> None:
    """A pod that is wrong anyway is not asked about; one that is right may still be too much."""
    reason = Refusal(code="QuotaExceeded", field="quota", value="4096", limit="limit 4096")
    door = Door(quota=KnownQuota(reasons=(reason,)))
    verdict = door.ask(a_pod(a_container(gpu=1, gpumem=3000)))
    assert not verdict.allowed
    assert "QuotaExceeded" in verdict.message
    assert verdict.code == 403
    leaderless = KnownQuota(reasons=(quotaverdict.no_leader(NAMESPACE, "there is none now"),))
    assert Door(quota=leaderless).ask(a_pod(a_container(gpu=1, gpumem=3000))).code == 500
    door.ask(a_pod(a_container(gpu=1, cores=150)))
    assert len(door.quota.asked) == 1


def test_variables_that_undo_limits() -> None:
    """They are refused, or warned about where the administrator prefers that."""
    container = a_container(gpu=1, gpumem=3000)
    container["env"] = [{"name": "CUDA_VISIBLE_DEVICES", "value": "1,0"}]
    pod = a_pod(container)
    assert "CUDA_VISIBLE_DEVICES" in Door().ask(pod).message
    lenient = Door(rules=lambda rules: replace(rules, environment_warns=True)).ask(pod)
    assert lenient.allowed
    assert any("CUDA_VISIBLE_DEVICES" in each for each in lenient.warnings)


def test_opting_out_of_limits() -> None:
    """It takes a granted namespace, or becomes a whole GPU where that is the rule."""
    container = a_container(gpu=1, gpumem=4096)
    container["env"] = [{"name": "CUDA_DISABLE_CONTROL", "value": "true"}]
    pod = a_pod(container)
    assert "requires a whole GPU" in Door().ask(pod).message

    def promoting(rules: PodRules) -> PodRules:
        return replace(
            rules, promotes=True, translation=replace(rules.translation, fallback_sizes_mib=())
        )

    promoted = Door(rules=promoting)
    admitted(pod, promoted.ask(pod))
    ((_, translation),) = promoted.quota.asked
    assert translation is not None
    assert "gpu.gpuslice.io" in str(translation.templates)


GRANTED = {"gpuslice.io/uncontrolled": "allowed"}


@pytest.mark.parametrize("promotes", [True, False])
@pytest.mark.parametrize("by_label", [True, False])
def test_opting_out_where_that_is_granted(*, promotes: bool, by_label: bool) -> None:
    """The container books its share and has no limits; one beside it has both."""
    opting, other = a_container("one", gpu=1, gpumem=4096), a_container("two", gpu=1, gpumem=4096)
    opting["env"] = [{"name": "CUDA_DISABLE_CONTROL", "value": "true"}]
    listed = () if by_label else (NAMESPACE,)
    door = Door(
        view=KnownCluster(labels=GRANTED if by_label else {}),
        rules=lambda rules: replace(rules, promotes=promotes, uncontrolled_namespaces=listed),
    )
    pod = a_pod(opting, other, inits=[a_container("before", gpu=1, gpumem=4096)])
    found = admitted(pod, door.ask(pod))
    claims = {
        each["name"]: each["resources"]["claims"][0]["name"]
        for each in (*found["spec"]["initContainers"], *found["spec"]["containers"])
    }
    assert claims == {"before": "gpu-two", "one": "gpu-one", "two": "gpu-two"}
    templates = expected_templates(found)
    assert isinstance(templates, Mapping)
    enforced = {
        entry["name"]: [
            each["opaque"]["parameters"]
            for each in templates[entry["resourceClaimTemplateName"]]["devices"].get("config", ())
        ]
        for entry in found["spec"]["resourceClaims"]
    }
    none = {"apiVersion": "gpuslice.io/v1alpha1", "kind": "ShareConfig", "enforcement": "none"}
    assert enforced == {"gpu-one": [none], "gpu-two": []}
    assert door.ask(found).patch == ()
    # The same record in a namespace to which nobody granted it.
    assert "ShareConfigNotAllowed" in Door().ask(found).message


def test_a_core_policy_for_everybody_needs_no_grant() -> None:
    """The claims of a cluster whose administrator wants no core limits have that everywhere."""

    def without(rules: PodRules) -> PodRules:
        return replace(rules, translation=replace(rules.translation, core_policy="disable"))

    pod = a_pod(a_container(gpu=1, gpumem=3000, cores=30))
    door = Door(rules=without)
    found = admitted(pod, door.ask(pod))
    assert door.ask(found).allowed
    # Elsewhere the record of such a pod was written by somebody else.
    assert "corePolicy: `disable`" in Door().ask(found).message


def test_a_whole_gpu_needs_no_grant_to_opt_out() -> None:
    """Nothing is limited anyway, so its claim is the same with the variable and without."""
    plain = a_pod(a_container(gpu=1))
    opting = copy.deepcopy(plain)
    opting["spec"]["containers"][0]["env"] = [{"name": "CUDA_DISABLE_CONTROL", "value": "true"}]
    for labels in ({}, GRANTED):
        door = Door(view=KnownCluster(labels=labels))
        named = [admitted(pod, door.ask(pod))["spec"]["resourceClaims"] for pod in (plain, opting)]
        assert named[0] == named[1]


def test_a_share_without_limits_beside_a_claim_of_ones_own() -> None:
    """One set of limits in a container is not overwritten by none."""
    asked = {
        "deviceClassName": "share.gpuslice.io",
        "capacity": {"requests": {"memory": "3000Mi"}},
    }
    claim = {
        "metadata": {"name": "mine", "namespace": NAMESPACE},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": asked}]}},
    }
    container = a_container(gpu=1, gpumem=4096)
    container["resources"]["claims"] = [{"name": "own"}]
    pod = a_pod(container, resourceClaims=[{"name": "own", "resourceClaimName": "mine"}])
    view = KnownCluster(labels=GRANTED, stored_claims=(claim,))
    assert "ManySharesInContainer" in Door(view=view).ask(pod).message
    container["env"] = [{"name": "CUDA_DISABLE_CONTROL", "value": "true"}]
    admitted(pod, Door(view=view).ask(pod))


def test_a_leftover_that_nobody_offers_is_removed() -> None:
    """A priority without a GPU would keep the pod pending for ever; a count of 0 does no harm."""
    pod = a_pod(a_container(priority=1))
    found = admitted(pod, Door().ask(pod))
    assert found["spec"]["containers"][0]["resources"]["limits"] == {}
    assert Door().ask(a_pod(a_container(gpu=0))).patch == ()


def test_other_vendors_go_to_their_scheduler_beside_claims() -> None:
    """A pod of both has a claim for the one, and the other scheduler for the other."""
    other = a_container("other")
    other["resources"] = {"limits": {"hygon.com/dcunum": "1", "hygon.com/dcumem": "2000"}}
    iluvatar = a_container("mthreads")
    iluvatar["resources"] = {"limits": {"mthreads.com/vgpu": "2"}}
    pod = a_pod(a_container(gpu=1, gpumem=3000, priority=1), other, iluvatar)
    found = admitted(pod, Door().ask(pod))
    assert found["spec"]["schedulerName"] == "hami-scheduler"
    assert len(found["spec"]["resourceClaims"]) == 1
    main, second, third = found["spec"]["containers"]
    assert main["resources"]["limits"] == {}
    assert "env" not in main
    assert second["resources"] == other["resources"]
    assert third["resources"]["limits"]["mthreads.com/sgpu-core"] == "32"
    assert found["metadata"]["annotations"]["mthreads.com/request-gpu-num"] == "2"
    assert ANNOTATION in found["metadata"]["annotations"]


def test_other_vendors_of_another_scheduler_are_left_alone_beside_claims() -> None:
    """Claims are served by any scheduler; for the rest its author hears why nothing is done."""
    other = a_container("other")
    other["resources"] = {"limits": {"mthreads.com/vgpu": "2"}}
    pod = a_pod(a_container(gpu=1, gpumem=3000), other, schedulerName="volcano")
    verdict = Door().ask(pod)
    found = admitted(pod, verdict)
    assert found["spec"]["schedulerName"] == "volcano"
    assert len(found["spec"]["resourceClaims"]) == 1
    assert found["spec"]["containers"][1] == other
    assert any("scheduler volcano" in each for each in verdict.warnings)


def test_two_containers_on_one_share_claim_are_refused() -> None:
    """Claims that users wrote are looked at in pods without any of HAMi's words."""
    asked = {
        "deviceClassName": "share.gpuslice.io",
        "capacity": {"requests": {"memory": "3000Mi"}},
    }
    requests = [{"name": "gpu", "exactly": asked}]
    claim = {
        "metadata": {"name": "mine", "namespace": "team-red"},
        "spec": {"devices": {"requests": requests}},
    }
    containers = [a_container("one"), a_container("two")]
    for each in containers:
        each["resources"] = {"claims": [{"name": "gpu"}]}
    pod = a_pod(*containers, resourceClaims=[{"name": "gpu", "resourceClaimName": "mine"}])
    verdict = Door(view=KnownCluster(stored_claims=(claim,))).ask(pod)
    assert "ShareUsedByManyContainers" in verdict.message
    asked["deviceClassName"] = "lab.example"
    door = Door(view=KnownCluster(stored_claims=(claim,)))
    assert door.ask(pod).allowed
    door.rules = lambda rules: replace(rules, classes=rules.classes | {"lab.example"})
    assert "ShareUsedByManyContainers" in door.ask(pod).message


def test_no_containers() -> None:
    """HAMi's own words for a pod without any."""
    verdict = Door().ask({"metadata": {}, "spec": {"containers": []}})
    assert "pod has no containers" in verdict.message
