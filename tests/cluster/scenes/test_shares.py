"""Scenes with shares: a part of a GPU's memory and compute."""

import pytest

from gpu import names
from tests.cluster.scenes.expectations import (
    A10,
    H100,
    PRIVATE_REGION,
    T4,
    expect_limits,
)
from tests.cluster.scenes.manifests import (
    claim,
    example,
    pod,
    request,
    share_config,
    wanted,
)
from tests.cluster.scenes.stage import Stage
from tests.patience import eventually

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

MANY_USERS = "ShareUsedByManyContainers"


@pytest.mark.scene("one share")
def test_one_share(stage: Stage) -> None:
    """A container with one share has its limits, its GPU's node, the library and the region."""
    report = stage.run(*example("one-share", node=stage.node))["one-share"]
    (given,) = stage.given("one-share")
    assert (given.memory_mib, given.cores_percent) == (3000, 30)
    expect_limits(report, {given.product: ("3000m", "30")})


@pytest.mark.scene("ten shares of one GPU")
def test_ten_shares(stage: Stage) -> None:
    """Ten containers share one GPU, each with limits and a region of its own; no eleventh fits."""
    objects = example("ten-shares", node=stage.node)
    reports = stage.run(*objects)
    assert len(reports) == 10
    given = [each for name in reports for each in stage.given(name)]
    assert {each.product for each in given} == {A10}
    for report in reports.values():
        expect_limits(report, {A10: ("2048m", "10")})
    assert len({each.mounts[PRIVATE_REGION].source for each in reports.values()}) == 10
    eleventh = {**objects[-1], "metadata": {"name": "eleventh"}}
    stage.create(eleventh)
    assert "cannot allocate all claims" in stage.pending("eleventh")


@pytest.mark.scene("shares of two GPUs by count")
def test_two_gpus(stage: Stage) -> None:
    """A request with a count gives one container a share of each of two GPUs."""
    report = stage.run(*example("two-gpus", node=stage.node))["two-gpus"]
    given = stage.given("two-gpus")
    assert len({each.uuid for each in given}) == 2
    expect_limits(report, {each.product: ("20480m", "50") for each in given})


@pytest.mark.scene("two GPUs of different size in one claim")
def test_two_sizes(stage: Stage) -> None:
    """Limits stand in the order of the PCI bus, whatever the order of the requests."""
    report = stage.run(
        claim(
            "sizes",
            request("large", memory="40Gi", cores=25, product=H100),
            request("small", memory="4Gi", cores=75, product=T4),
        ),
        pod("sizes", {"gpus": "sizes"}, node=stage.node),
    )["sizes"]
    assert [each.request for each in stage.given("sizes")] == ["small", "large"]
    expect_limits(report, {T4: ("4096m", "75"), H100: ("40960m", "25")})


@pytest.mark.scene("two claims in one pod")
def test_two_claims(stage: Stage) -> None:
    """Each container of a pod has the limits of its own claim and not those of the other's."""
    stage.create(
        claim("left", request(memory="1Gi", cores=10, product=A10)),
        claim("right", request(memory="2Gi", cores=20, product=T4)),
        pod(
            "pair",
            {"l": "left", "r": "right"},
            node=stage.node,
            containers={"first": ["l"], "second": ["r"]},
        ),
    )
    expect_limits(stage.report("pair", "first"), {A10: ("1024m", "10")})
    expect_limits(stage.report("pair", "second"), {T4: ("2048m", "20")})
    assert not stage.events("pair", MANY_USERS)


@pytest.mark.scene("two share claims in one container")
def test_two_claims_in_one_container(stage: Stage) -> None:
    """A container with two limited claims is kept from starting, and its pod says why."""
    stage.create(
        claim("left", request(memory="1Gi", product=A10)),
        claim("right", request(memory="2Gi", product=T4)),
        pod("both", {"l": "left", "r": "right"}, node=stage.node),
    )
    refused = stage.told("both", "FailedPrepareDynamicResources")
    assert "ManySharesInContainer" in refused
    assert "put the requests into one claim" in refused


@pytest.mark.scene("init container, then app, on one share claim")
def test_init_then_app(stage: Stage) -> None:
    """Both have the same limits, one after the other, and nothing is said against it."""
    stage.create(
        claim("shared", request(memory="3000Mi", cores=30, product=A10)),
        pod("staged", {"gpu": "shared"}, node=stage.node, inits=("prepare",)),
    )
    app = stage.report("staged", "app")
    for report in (app, stage.report("staged", "prepare")):
        expect_limits(report, {A10: ("3000m", "30")})
    assert not stage.events("staged", MANY_USERS)


@pytest.mark.scene("one share claim in two pods")
def test_share_in_two_pods(stage: Stage) -> None:
    """Two pods on one share claim run, and both say that limits hold for one container only."""
    objects = [pod(name, {"gpu": "shared"}, node=stage.node) for name in ("one", "two")]
    reports = stage.run(claim("shared", request(memory="1Gi", cores=30, product=A10)), *objects)
    for name, report in reports.items():
        expect_limits(report, {A10: ("1024m", "30")})
        assert "used by one/app, two/app" in stage.told(name, MANY_USERS)


@pytest.mark.scene("a percentage of whichever card, by firstAvailable")
def test_percentage(stage: Stage) -> None:
    """60 % of a card's memory is 60 % of the card that is given, the second where one is full."""
    alternatives = [
        {"name": "large", **wanted(memory="48935Mi", cores=60, product=H100)},
        {"name": "small", **wanted(memory="13816Mi", cores=60, product=A10)},
    ]
    template = claim("percent", {"name": "gpu", "firstAvailable": alternatives}, template=True)
    pods = [pod(name, {"gpu": "percent"}, node=stage.node) for name in ("first", "second")]
    for each in pods:
        (use,) = each["spec"]["resourceClaims"]
        use["resourceClaimTemplateName"] = use.pop("resourceClaimName")
        each["spec"]["containers"][0]["resources"]["claims"] = [{"name": "gpu", "request": "gpu"}]
    first = stage.run(template, pods[0])["first"]
    expect_limits(first, {H100: ("48935m", "60")})
    second = stage.run(pods[1])["second"]
    expect_limits(second, {A10: ("13816m", "60")})


@pytest.mark.scene("ShareConfig from class and claim")
def test_share_config(stage: Stage) -> None:
    """A class's settings reach the container; those of a claim replace them as a whole."""
    of_class = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": "batch.gpuslice.test"},
        "spec": {
            "selectors": [{"cel": {"expression": 'device.driver == "gpuslice.io"'}}],
            "config": [share_config(priority=1, logLevel=2)],
        },
    }
    asked = request(device_class="batch.gpuslice.test", memory="1Gi", cores=20, product=A10)
    reports = stage.run(
        of_class,
        claim("by-class", asked),
        claim("by-claim", asked, config=[share_config(priority=0, corePolicy="force")]),
        pod("by-class", {"gpu": "by-class"}, node=stage.node),
        pod("by-claim", {"gpu": "by-claim"}, node=stage.node),
    )
    keys = ("CUDA_TASK_PRIORITY", "LIBCUDA_LOG_LEVEL", "GPU_CORE_UTILIZATION_POLICY")
    found = {name: [each.env.get(key) for key in keys] for name, each in reports.items()}
    assert found == {"by-class": ["1", "2", None], "by-claim": ["0", None, "FORCE"]}


@pytest.mark.scene("ShareConfig with a mistake")
def test_share_config_with_a_mistake(stage: Stage) -> None:
    """A claim with an unknown field does not start, and its pod names the field."""
    stage.create(
        claim("typo", request(memory="1Gi"), config=[share_config(prioritty=1)]),
        pod("typo", {"gpu": "typo"}, node=stage.node),
    )
    refused = stage.told("typo", "FailedPrepareDynamicResources")
    assert "ShareConfigInvalid" in refused
    assert "prioritty" in refused


@pytest.mark.scene("a small request of the whole-GPU class")
def test_small_request_of_the_whole_class(stage: Stage) -> None:
    """Limits follow what was booked and not the class's name, so others fit beside it."""
    asked = request(device_class=names.CLASS_WHOLE, memory="1Gi", product=A10)
    reports = stage.run(
        *(claim(name, asked) for name in ("one", "two")),
        *(pod(name, {"gpu": name}, node=stage.node) for name in ("one", "two")),
    )
    for report in reports.values():
        expect_limits(report, {A10: ("1024m", "100")})


@pytest.mark.scene("a request that cannot fit")
def test_does_not_fit(stage: Stage) -> None:
    """A share larger than any GPU waits with the scheduler's reason."""
    stage.create(*example("does-not-fit", node=stage.node))
    assert "cannot allocate all claims" in stage.pending("does-not-fit")


@pytest.mark.scene("a share where the first node has no room")
def test_share_on_another_node(stage: Stage) -> None:
    """The scheduler goes to the node whose GPU is large enough."""
    stage.create(
        claim("huge", request(memory="100Gi", cores=50)),
        pod("huge", {"gpu": "huge"}, node=""),
    )
    assert stage.scheduled("huge") == stage.driver.cluster.node_names[2]
    (given,) = stage.given("huge")
    assert (given.node, given.memory_mib) == (stage.driver.cluster.node_names[2], 100 * 1024)


@pytest.mark.scene("a share that is given back")
def test_share_is_given_back(stage: Stage) -> None:
    """When a pod ends, spec, region and booking are gone, and the next gets the same share."""
    asked = request(memory="12Gi", product=A10)
    for name in ("before", "after"):
        stage.run(claim(name, asked), pod(name, {"gpu": name}, node=stage.node))
        assert len(stage.driver.specs()) == 1
        stage.delete("Pod", name)
        assert not stage.driver.specs()
        assert not stage.driver.regions()
        stage.delete("ResourceClaim", name)
    assert "gpuslice_prepared_claims 0.0" in stage.driver.first.metrics()


@pytest.mark.scene("a share without DRAConsumableCapacity")
def test_share_waits_without_the_gate(stage: Stage) -> None:
    """A server that drops what makes GPUs shareable gives no share; pod and node say why."""
    stage.create(*example("one-share", node=stage.node))
    assert "cannot allocate all claims" in stage.pending("one-share")
    eventually(lambda: stage.node_says("DRAConsumableCapacity"))
