"""What HAMi's requests become: one row for each form, and what happens to the rest of the pod."""

import copy
from typing import Any

import jsonpatch
import kubernetes_validate
import pytest

from gpu.refusal import Refusal
from hami import resources
from hami.deviceconfig import DeviceConfig, NvidiaConfig
from hami.preferences import Preferences
from hami.requests import Absent, Invalid, Valid
from kube.objects import JsonObject
from sim.scheduler.cel import fault_of
from tests.webhook.translating import (
    a_container,
    a_pod,
    a_sidecar,
    a_template,
    bodies,
    codes,
    expressions,
    limits,
    only_spec,
    outcome,
    refused,
    translated,
    uuid,
)
from webhook.claims import TranslationSettings, translate
from webhook.facts import ClusterFacts
from webhook.requestannotation import ANNOTATION, LABEL, read
from webhook.templatecontent import expected_templates

FACTS = ClusterFacts(
    gpus_by_memory_mib={23028: 1, 81920: 1},
    gpus_by_shares={10: 2},
    mig_by_memory_mib={9856: 3, 20096: 2, 40448: 1},
    models=frozenset({"NVIDIA A10", "NVIDIA A100-SXM4-80GB"}),
    fill_levels=True,
)
ONE_SIZE = ClusterFacts(gpus_by_memory_mib={24564: 2}, gpus_by_shares={10: 2})
OLD = ClusterFacts(gpus_by_memory_mib={24564: 2}, counts_are_distinct=False)
MODEL = 'device.attributes["gpuslice.io"].productName.lowerAscii()'
TOTAL = 'device.capacity["gpuslice.io"].memory.compareTo(quantity("{}Mi")) == 0'
DISTINCT = {"distinctAttribute": "gpuslice.io/uuid"}
NUMA = {"matchAttribute": "resource.kubernetes.io/numaNode"}
ROOT = {"matchAttribute": "resource.kubernetes.io/pcieRoot"}


def _share(memory: str, *selectors: str, cores: int = 0, count: int = 1, **more: str) -> JsonObject:
    return _body("share", {"memory": memory, "cores": str(cores), **more}, *selectors, count=count)


def _body(
    device_class: str, capacity: dict[str, str], *selectors: str, count: int = 1
) -> JsonObject:
    body: JsonObject = {
        "deviceClassName": f"{device_class}.gpuslice.io",
        "allocationMode": "ExactCount",
        "count": count,
        "capacity": {"requests": capacity},
    }
    if selectors:
        body["selectors"] = [{"cel": {"expression": each}} for each in selectors]
    return body


def _exactly(body: JsonObject, *constraints: JsonObject, config: Any = None) -> JsonObject:
    return _devices([{"name": "gpu", "exactly": body}], constraints, config)


def _first(*named: tuple[str, JsonObject], constraints: tuple[JsonObject, ...] = ()) -> JsonObject:
    alternatives = [{"name": name, **body} for name, body in named]
    return _devices([{"name": "gpu", "firstAvailable": alternatives}], constraints)


def _devices(
    requests: list[JsonObject], constraints: tuple[JsonObject, ...] = (), config: Any = None
) -> JsonObject:
    devices: JsonObject = {"requests": requests}
    if constraints:
        devices["constraints"] = list(constraints)
    if config:
        parameters = {"apiVersion": "gpuslice.io/v1alpha1", "kind": "ShareConfig", **config}
        devices["config"] = [{"opaque": {"driver": "gpuslice.io", "parameters": parameters}}]
    return {"devices": devices}


def _row(name: str, amounts: dict[str, Any], expected: JsonObject, **more: Any) -> Any:
    return pytest.param(amounts, more.pop("notes", {}), more, expected, id=name)


HALF = (
    ("23028mib", _share("11514Mi", TOTAL.format(23028))),
    ("81920mib", _share("40Gi", TOTAL.format(81920))),
)
ROWS = [
    _row("memory", {"gpu": 1, "gpumem": "5k"}, _exactly(_share("5000Mi"))),
    _row("memory alone", {"gpumem": 1024}, _exactly(_share("1Gi"))),
    _row("cores", {"gpu": 1, "gpumem": 2000, "cores": 30}, _exactly(_share("2000Mi", cores=30))),
    _row("count", {"gpu": 2, "gpumem": 1000}, _exactly(_share("1000Mi", count=2))),
    _row(
        "count on an old cluster",
        {"gpu": 2, "gpumem": 1000},
        _devices(
            [{"name": f"gpu-{each}", "exactly": _share("1000Mi")} for each in (0, 1)], (DISTINCT,)
        ),
        facts=OLD,
    ),
    _row("whole", {"gpu": 1}, _exactly(_body("gpu", {"cores": "100"}))),
    _row("100 percent", {"gpu": 1, "percent": 100}, _exactly(_body("gpu", {"cores": "100"}))),
    _row("whole, fewer cores", {"gpu": 1, "cores": 30}, _exactly(_body("gpu", {"cores": "30"}))),
    _row("two whole", {"gpu": 2}, _exactly(_body("gpu", {"cores": "100"}, count=2))),
    _row("percentage", {"gpu": 1, "percent": 50}, _first(*HALF)),
    _row(
        "percentage of one size",
        {"gpu": 1, "percent": 33},
        _first(("24564mib", _share("8106Mi", TOTAL.format(24564)))),
        facts=ONE_SIZE,
    ),
    _row(
        "percentage of two GPUs of one size",
        {"gpu": 2, "percent": 33},
        _first(("24564mib", _share("8106Mi", TOTAL.format(24564), count=2))),
        facts=ONE_SIZE,
    ),
    _row(
        "percentage of two GPUs of any size",
        {"gpu": 2, "percent": 50},
        _devices(
            [
                {
                    "name": f"gpu-{number}",
                    "firstAvailable": [{"name": name, **body} for name, body in HALF],
                }
                for number in (0, 1)
            ],
            (DISTINCT,),
        ),
    ),
    _row(
        "percentage before there is a GPU",
        {"gpu": 1, "percent": 50},
        _first(("24564mib", _share("12282Mi", TOTAL.format(24564)))),
        facts=ClusterFacts(),
        settings=TranslationSettings(fallback_sizes_mib=(24564,)),
    ),
    _row(
        "priority",
        {"gpu": 1, "gpumem": "2k", "cores": 30, "priority": 0},
        _exactly(_share("2000Mi", cores=30), config={"priority": 0}),
    ),
    _row(
        "core policy of the cluster",
        {"gpu": 1, "gpumem": "2k", "cores": 30},
        _exactly(_share("2000Mi", cores=30), config={"corePolicy": "force"}),
        settings=TranslationSettings(core_policy="force"),
    ),
    _row(
        "core policy without a core limit",
        {"gpu": 1, "gpumem": "2k"},
        _exactly(_share("2000Mi")),
        settings=TranslationSettings(core_policy="disable"),
    ),
    _row(
        "types",
        {"gpu": 1, "gpumem": 1000},
        _exactly(
            _share(
                "1000Mi",
                f'{MODEL}.contains("a100") || {MODEL}.contains("h100")',
                f'!({MODEL}.contains("pcie"))',
            )
        ),
        notes={"nvidia.com/use-gputype": "H100,A100", "nvidia.com/nouse-gputype": "PCIe"},
    ),
    _row(
        "uuids",
        {"gpu": 1, "gpumem": 1000},
        _exactly(
            _share(
                "1000Mi",
                f'device.attributes["gpuslice.io"].uuid in ["{uuid(1)}", "{uuid(2)}"]',
                f'!(device.attributes["gpuslice.io"].uuid in ["{uuid(3)}"])',
            )
        ),
        notes={
            "nvidia.com/use-gpuuuid": f"{uuid(2)}, {uuid(1)},",
            "nvidia.com/nouse-gpuuuid": uuid(3),
        },
    ),
    _row(
        "blank annotations",
        {"gpu": 1, "gpumem": 1000},
        _exactly(_share("1000Mi")),
        notes={"nvidia.com/use-gputype": " ", "nvidia.com/nouse-gpuuuid": ""},
    ),
    _row(
        "numa-bind",
        {"gpu": 2, "gpumem": 1000},
        _exactly(_share("1000Mi", count=2), NUMA),
        notes={"nvidia.com/numa-bind": "true"},
    ),
    _row(
        "numa-bind on an old cluster",
        {"gpu": 2, "gpumem": 1000},
        _devices(
            [{"name": f"gpu-{each}", "exactly": _share("1000Mi")} for each in (0, 1)],
            (DISTINCT, NUMA),
        ),
        notes={"nvidia.com/numa-bind": "true"},
        facts=OLD,
    ),
    _row(
        "numa-bind of one",
        {"gpu": 1, "gpumem": 1000},
        _exactly(_share("1000Mi")),
        notes={"nvidia.com/numa-bind": "true"},
    ),
    _row(
        "numa-alignment strict",
        {"gpu": 2},
        _exactly(_body("gpu", {"cores": "100"}, count=2), NUMA),
        notes={"hami.io/numa-alignment": "strict"},
    ),
    _row(
        "numa-alignment best-effort",
        {"gpu": 2, "gpumem": 1000},
        _first(
            ("numa-share", _share("1000Mi", count=2)),
            ("share", _share("1000Mi", count=2)),
            constraints=({"requests": ["gpu/numa-share"], **NUMA},),
        ),
        notes={"hami.io/numa-alignment": "best-effort"},
    ),
    _row(
        "topology-aware",
        {"gpu": 2},
        _first(
            ("root-whole", _body("gpu", {"cores": "100"}, count=2)),
            ("whole", _body("gpu", {"cores": "100"}, count=2)),
            constraints=({"requests": ["gpu/root-whole"], **ROOT},),
        ),
        notes={"hami.io/gpu-scheduler-policy": "topology-aware"},
    ),
    _row(
        "vgpu-mode hami-core",
        {"gpu": 1, "gpumem": 1000},
        _exactly(_share("1000Mi")),
        notes={"nvidia.com/vgpu-mode": "hami-core"},
    ),
    _row(
        "vgpu-mode mig",
        {"gpu": 1, "gpumem": "10k"},
        _first(
            ("mig-20096mib", _body("mig", {"memory": "20096Mi"}, TOTAL.format(20096))),
            ("mig-40448mib", _body("mig", {"memory": "40448Mi"}, TOTAL.format(40448))),
            ("mig", _body("mig", {"memory": "10000Mi"}, TOTAL.format(10000).replace("==", ">="))),
        ),
        notes={"nvidia.com/vgpu-mode": "mig"},
    ),
    _row(
        "vgpu-mode both",
        {"gpu": 1, "gpumem": "30k", "cores": 20},
        _first(
            ("share", _share("30000Mi", cores=20)),
            ("mig-40448mib", _body("mig", {"memory": "40448Mi"}, TOTAL.format(40448))),
            ("mig", _body("mig", {"memory": "30000Mi"}, TOTAL.format(30000).replace("==", ">="))),
        ),
        notes={"nvidia.com/vgpu-mode": "hami-core,mig"},
    ),
    _row(
        "mutex",
        {"gpu": 1, "gpumem": 1000},
        _exactly(
            _share(
                "1000Mi",
                'device.capacity["gpuslice.io"].shares.compareTo(quantity("10")) == 0',
                cores=100,
                shares="10",
            )
        ),
        notes={"hami.io/gpu-scheduler-policy": "mutex"},
    ),
    _row(
        "mutex with cores",
        {"gpu": 1, "gpumem": 1000, "cores": 30},
        _exactly(
            _share(
                "1000Mi",
                'device.capacity["gpuslice.io"].shares.compareTo(quantity("10")) == 0',
                cores=30,
                shares="10",
            )
        ),
        notes={"hami.io/gpu-scheduler-policy": "mutex"},
    ),
    _row(
        "mutex of a whole GPU",
        {"gpu": 1},
        _exactly(_body("gpu", {"cores": "100"})),
        notes={"hami.io/gpu-scheduler-policy": "mutex"},
    ),
    _row(
        "binpack",
        {"gpu": 1, "gpumem": 1000},
        _first(
            *(
                (
                    f"from{level}-share",
                    _share(
                        "1000Mi",
                        '"fillLevel" in device.attributes["gpuslice.io"] && '
                        f'device.attributes["gpuslice.io"].fillLevel >= {level}',
                    ),
                )
                for level in (3, 2, 1)
            ),
            ("share", _share("1000Mi")),
        ),
        notes={"hami.io/gpu-scheduler-policy": "binpack"},
    ),
    _row(
        "scoring weights",
        {"gpu": 1, "gpumem": 1000},
        _exactly(_share("1000Mi")),
        notes={"hami.io/device-scoring-weights": "slot=1,core=1,memory=3"},
    ),
]


@pytest.mark.parametrize(("amounts", "notes", "more", "expected"), ROWS)
def test_a_request_becomes_its_claim(
    amounts: dict[str, Any], notes: dict[str, str], more: dict[str, Any], expected: JsonObject
) -> None:
    """The claim is the one of the row, valid by the official schema, its expressions compile."""
    pod = a_pod(a_container(**amounts), annotations=notes)
    translation = translated(pod, more.get("facts", FACTS), more.get("settings"))
    spec = only_spec(translation)
    assert spec == expected
    (name,) = translation.templates
    kubernetes_validate.validate(a_template(spec, name), "1.36", strict=True)
    for expression in expressions(spec):
        assert fault_of(expression) is None
    after = jsonpatch.apply_patch(pod, list(translation.patch))
    kubernetes_validate.validate(after, "1.36", strict=True)
    assert after["spec"]["containers"][0]["resources"]["limits"] == {}
    assert expected_templates(after) == {name: spec}


def test_a_word_that_means_more_is_a_warning() -> None:
    """`A10` takes an A100 too, and the user hears it once for all containers."""
    pod = a_pod(
        a_container("a", gpu=1, gpumem=1000),
        a_container("b", gpu=1, gpumem=2000),
        annotations={"nvidia.com/use-gputype": "A10"},
    )
    assert codes(translated(pod, FACTS)) == ["TypeMatchesMore"]


def test_everything_else_of_the_pod_stays() -> None:
    """Fields that nobody here knows, other resources and claims of the user keep their place."""
    own = {"name": "gpu-main", "resourceClaimName": "own"}
    main = {
        **a_container(),
        "futureField": {"x": [1, None]},
        "resources": {
            "limits": {**limits(gpu=1, gpumem="5k"), "cpu": "1", "example.com/other": "2"},
            "requests": {**limits(gpu=1, gpumem="5k"), "cpu": "500m"},
            "claims": [{"name": "gpu-main", "request": "r"}],
        },
    }
    pod = a_pod(main, annotations={"a": "b"}, resourceClaims=[own], futureSpec={"y": 1})
    pod["metadata"]["labels"] = {"app": "x"}
    before = copy.deepcopy(pod)
    translation = translated(pod)
    after = jsonpatch.apply_patch(pod, list(translation.patch))
    assert pod == before
    (template,) = translation.templates
    new = after["spec"]["resourceClaims"][1]["name"]
    assert new.startswith("gpu-main-")
    expected = copy.deepcopy(before)
    expected["metadata"]["annotations"][ANNOTATION] = after["metadata"]["annotations"][ANNOTATION]
    expected["metadata"]["labels"][LABEL] = "true"
    expected["spec"]["resourceClaims"].append({"name": new, "resourceClaimTemplateName": template})
    expected["spec"]["containers"][0]["resources"] = {
        "limits": {"cpu": "1", "example.com/other": "2"},
        "requests": {"cpu": "500m"},
        "claims": [{"name": "gpu-main", "request": "r"}, {"name": new}],
    }
    assert after == expected


def test_leftovers_of_containers_that_ask_for_no_gpu_go_too() -> None:
    """A priority without a GPU would keep the pod pending; nothing else changes there."""
    pod = a_pod(
        a_container("main", gpu=1, gpumem=1000),
        {**a_container("other"), "resources": {"limits": limits(priority=0), "requests": {}}},
        inits=[{**a_container("i"), "resources": {"limits": limits(gpu=0)}}],
    )
    after = jsonpatch.apply_patch(pod, list(translated(pod).patch))
    assert after["spec"]["containers"][1]["resources"] == {"limits": {}, "requests": {}}
    assert after["spec"]["initContainers"][0]["resources"] == {"limits": {}}
    assert list(read(after["metadata"]["annotations"][ANNOTATION])) == ["gpu-main"]


def test_renamed_resources_are_read_and_go() -> None:
    """The names are those of the administrator; the usual ones mean nothing then."""
    config = DeviceConfig(nvidia=NvidiaConfig(resource_memory_name="acme.example/vcuda-memory"))
    pod = a_pod(
        {
            **a_container(),
            "resources": {
                "limits": {"nvidia.com/gpu": "1", "acme.example/vcuda-memory": "3000"},
            },
        }
    )
    settings = TranslationSettings(keys=config.nvidia.keys)
    translation = translated(pod, settings=settings, config=config)
    assert bodies(only_spec(translation))[0]["capacity"]["requests"]["memory"] == "3000Mi"
    after = jsonpatch.apply_patch(pod, list(translation.patch))
    assert after["spec"]["containers"][0]["resources"]["limits"] == {}


def test_init_and_app_share_a_claim() -> None:
    """Both name it, and it is made once."""
    pod = a_pod(
        a_container("app", gpu=1, gpumem=1000),
        inits=[a_container("first", gpu=1, gpumem=1000), a_sidecar("side", gpu=1, gpumem=1000)],
    )
    translation = translated(pod)
    after = jsonpatch.apply_patch(pod, list(translation.patch))
    first, side = after["spec"]["initContainers"]
    assert first["resources"]["claims"] == [{"name": "gpu-app"}]
    assert side["resources"]["claims"] == [{"name": "gpu-side"}]
    assert after["spec"]["containers"][0]["resources"]["claims"] == [{"name": "gpu-app"}]
    assert [each["name"] for each in after["spec"]["resourceClaims"]] == ["gpu-side", "gpu-app"]
    assert len(translation.templates) == 1
    assert translation.warnings == ()


def test_an_init_container_that_asks_for_more_holds_it_for_good() -> None:
    """Kubernetes frees a claim when the pod ends, which the user is told."""
    pod = a_pod(
        a_container("app", gpu=1, gpumem=4000), inits=[a_container("first", gpu=1, gpumem=30000)]
    )
    translation = translated(pod)
    assert codes(translation) == ["InitClaimAddsUp"]
    assert len(translation.templates) == 2


def test_equal_pods_name_equal_templates() -> None:
    """The pods of a Deployment have one template, whatever order the annotation lists."""
    first = a_pod(a_container(gpu=1), annotations={"nvidia.com/use-gputype": "a,b"})
    second = a_pod(a_container(gpu=1), annotations={"nvidia.com/use-gputype": "b,a,b"})
    assert translated(first).templates == translated(second).templates


def test_a_long_container_name_makes_a_valid_claim_name() -> None:
    """The entry of the pod is a DNS label."""
    name = "the-main-model-serving-container-with-a-long-name-too-long"
    pod = a_pod(a_container(name + "-abcd", gpu=1))
    after = jsonpatch.apply_patch(pod, list(translated(pod).patch))
    assert len(after["spec"]["resourceClaims"][0]["name"]) <= 63


def test_a_second_call_adds_only_what_is_new() -> None:
    """A container that another webhook added in between joins those that are translated."""
    pod = a_pod(a_container("app", gpu=1, gpumem=1000))
    once = jsonpatch.apply_patch(pod, list(translated(pod).patch))
    once["spec"]["containers"].append(a_container("late", gpu=1, gpumem=2000))
    twice = jsonpatch.apply_patch(once, list(translated(once).patch))
    requests = read(twice["metadata"]["annotations"][ANNOTATION])
    assert {name: each.memory_mib for name, each in requests.items()} == {
        "gpu-app": 1000,
        "gpu-late": 2000,
    }
    expected = expected_templates(twice)
    assert not isinstance(expected, Refusal)
    assert len(expected) == 2


def test_a_translated_pod_asks_for_nothing() -> None:
    """So a second call leaves it as it is."""
    pod = a_pod(a_container(gpu=1, gpumem=1000))
    after = jsonpatch.apply_patch(pod, list(translated(pod).patch))
    assert resources.read(after, DeviceConfig()) == Absent()


def test_an_annotation_that_was_copied_without_its_claims_is_replaced() -> None:
    """It belongs to another pod."""
    pod = a_pod(a_container(gpu=1, gpumem=1000))
    after = jsonpatch.apply_patch(pod, list(translated(pod).patch))
    copied = a_pod(
        a_container("other", gpu=1, gpumem=2000), annotations=after["metadata"]["annotations"]
    )
    final = jsonpatch.apply_patch(copied, list(translated(copied).patch))
    assert list(read(final["metadata"]["annotations"][ANNOTATION])) == ["gpu-other"]


def test_all_reasons_are_told_and_nothing_is_half_done() -> None:
    """Two containers that cannot be translated are two reasons."""
    pod = a_pod(
        a_container("a", gpu=33, gpumem=1000),
        a_container("b", gpu=1, percent=50),
        a_container("c", gpu=1, gpumem=1000),
        annotations={ANNOTATION: "{"},
    )
    assert refused(pod) == ["TooManyDevices", "NoSizesKnown", "RequestsAnnotationInvalid"]
    found = outcome(pod)
    assert isinstance(found, Invalid)
    assert found.reasons[0].field == "spec.containers[0]"
    assert "settings" in found.reasons[1].remedy


def test_the_runtime_class_and_the_hidden_gpus_are_kept_from_the_old_way() -> None:
    """Other variables are the driver's business in a claim."""
    config = DeviceConfig(
        nvidia=NvidiaConfig(
            runtime_class_name="nvidia", overwrite_env=True, gpu_core_policy="force"
        )
    )
    pod = a_pod(a_container("main", gpu=1, gpumem=1000, priority=0), a_container("helper"))
    valid = resources.read(pod, config)
    assert isinstance(valid, Valid)
    found = translate(pod, valid, FACTS, TranslationSettings(core_policy="force"))
    assert not isinstance(found, Invalid)
    after = jsonpatch.apply_patch(pod, list(found.patch))
    main, helper = after["spec"]["containers"]
    assert after["spec"]["runtimeClassName"] == "nvidia"
    assert "env" not in main
    assert helper["env"] == [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "none"}]
    once_more = {**after, "spec": {**after["spec"], "containers": [a_container(gpu=1), helper]}}
    again = jsonpatch.apply_patch(
        once_more, list(translated(once_more, FACTS, config=config).patch)
    )
    assert again["spec"]["containers"][1]["env"] == helper["env"]


def test_the_users_runtime_class_stays() -> None:
    """It is only for a pod that names none."""
    config = DeviceConfig(nvidia=NvidiaConfig(runtime_class_name="nvidia"))
    pod = a_pod(a_container(gpu=1, gpumem=1000), runtimeClassName="own")
    after = jsonpatch.apply_patch(pod, list(translated(pod, config=config).patch))
    assert after["spec"]["runtimeClassName"] == "own"


def test_a_pod_that_asks_other_vendors_only_is_not_touched() -> None:
    """Their requests go the old way."""
    pod = a_pod(a_container())
    valid = Valid(requests=(), preferences=Preferences())
    found = translate(pod, valid, FACTS, TranslationSettings())
    assert not isinstance(found, Invalid)
    assert found.patch == ()
    assert found.templates == {}
