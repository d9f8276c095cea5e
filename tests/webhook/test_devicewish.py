"""What a claim is to contain, for every kind of request and cluster."""

import pytest
from hypothesis import given, settings

from gpu.refusal import Refusal, RefusedError
from hami.preferences import Preferences
from hami.requests import NVIDIA, DeviceRequest
from kube import shareconfig
from kube.objects import JsonObject
from kube.quantity import parse
from tests.webhook.strategies import ASKED
from tests.webhook.translating import MIB, bodies, stored
from webhook import requestannotation
from webhook.alternatives import alternatives_of, fits
from webhook.devicewish import Asked, TranslationSettings, wished
from webhook.facts import ClusterFacts
from webhook.rendering import claim_spec
from webhook.sharerequest import ShareRequest
from webhook.templatecontent import is_genuine, template_name

EXPECTED_REFUSALS = {
    "CannotBeClaimed",
    "MigNeedsMemory",
    "ModeNotServed",
    "NoSharesKnown",
    "NoSizesKnown",
    "PriorityOutOfRange",
    "TooManyDevices",
}


def _wish(asked: Asked) -> ShareRequest | None:
    refusal: Refusal | None = None
    request: ShareRequest | None = None
    try:
        request, _ = wished(asked)
    except RefusedError as error:
        refusal = error.refusal
    if refusal is not None:
        assert refusal.code in EXPECTED_REFUSALS
        assert refusal.limit
    return request


@settings(max_examples=150)
@given(asked=ASKED)
def test_the_api_server_takes_every_claim_and_keeps_it_as_it_is(asked: Asked) -> None:
    """What is stored is what was written, so that its hash still is the template's name."""
    request = _wish(asked)
    if request is None:
        return
    spec = claim_spec(request)
    kept = stored(spec)
    assert kept == spec
    assert is_genuine(template_name(spec), kept)


@settings(max_examples=150)
@given(asked=ASKED)
def test_what_is_booked_is_what_was_asked(asked: Asked) -> None:
    """Count, memory and cores of every alternative are those of the container."""
    request = _wish(asked)
    if request is None:
        return
    device = asked.device
    spec = claim_spec(request)
    requests = spec["devices"]["requests"]
    counts = [{body["count"] for body in bodies(_only(each))} for each in requests]
    assert sum(next(iter(count)) for count in counts) == device.count
    assert all(len(count) == 1 for count in counts)
    for each in requests:
        assert len(bodies(_only(each))) <= 8
        for body in bodies(_only(each)):
            _check_booked(body, device)


def _only(request: JsonObject) -> JsonObject:
    return {"devices": {"requests": [request]}}


def _check_booked(body: JsonObject, device: DeviceRequest) -> None:
    amounts = {name: parse(text) for name, text in body["capacity"]["requests"].items()}
    if body["deviceClassName"] == "gpu.gpuslice.io":
        assert device.memory_percent == 100
        assert amounts.keys() == {"cores"}
    elif body["deviceClassName"] == "mig.gpuslice.io":
        assert device.memory_mib is not None
        assert amounts["memory"].value() >= device.memory_mib * MIB
        assert amounts.keys() == {"memory"}
        return
    elif device.memory_mib is not None:
        assert amounts["memory"].value() == device.memory_mib * MIB
    else:
        totals = [each["cel"]["expression"] for each in body["selectors"]]
        total = next(int(each.split('"')[3][:-2]) for each in totals if ".memory." in each)
        percent = device.memory_percent or 0
        assert amounts["memory"].value() == max(1, total * percent // 100) * MIB
    if "shares" in amounts and device.cores == 0:
        assert amounts["cores"].value() == 100
    else:
        assert amounts["cores"].value() == device.cores


@settings(max_examples=150)
@given(asked=ASKED)
def test_a_request_survives_its_annotation(asked: Asked) -> None:
    """What a pod carries is read back as what was meant, and its configuration is valid."""
    request = _wish(asked)
    if request is None:
        return
    assert fits(request)
    text = requestannotation.write({"gpu-main": request})
    assert text.isascii()
    read = requestannotation.read(text)
    assert read == {"gpu-main": request}
    assert claim_spec(read["gpu-main"]) == claim_spec(request)
    for entry in claim_spec(request)["devices"].get("config") or ():
        config = shareconfig.parse(entry["opaque"]["parameters"])
        assert config.priority == asked.device.priority or config.priority is None


@settings(max_examples=150)
@given(asked=ASKED)
def test_limits_are_lifted_where_they_were_and_nowhere_else(asked: Asked) -> None:
    """Such a share has nothing else to configure, and a whole GPU has nothing at all."""
    request = _wish(asked)
    if request is None:
        return
    is_part = not request.whole or 0 < request.cores < 100
    is_free = is_part and not asked.device.is_limited
    assert (request.enforcement == "none") is is_free
    if is_free:
        (config,) = claim_spec(request)["devices"]["config"]
        said = config["opaque"]["parameters"].keys() - {"apiVersion", "kind"}
        assert said == {"enforcement"}


def _asked(
    device: DeviceRequest | None = None,
    preferences: Preferences | None = None,
    facts: ClusterFacts | None = None,
    settings_: TranslationSettings | None = None,
) -> Asked:
    return Asked(
        device=device or _device(),
        preferences=preferences or Preferences(),
        facts=facts or ClusterFacts(),
        settings=settings_ or TranslationSettings(),
        path="spec.containers[0]",
    )


def _device(
    *,
    count: int = 1,
    memory_mib: int | None = 1000,
    percent: int | None = None,
    cores: int = 0,
    priority: int | None = None,
) -> DeviceRequest:
    return DeviceRequest(
        word=NVIDIA,
        count=count,
        memory_mib=None if percent else memory_mib,
        memory_percent=percent,
        cores=cores,
        priority=priority,
    )


def _names(asked: Asked) -> list[str]:
    return [each.name for each in alternatives_of(wished(asked)[0])]


def _warnings(asked: Asked) -> list[Refusal]:
    return list(wished(asked)[1])


def test_the_most_frequent_sizes_are_kept() -> None:
    """Of more than eight totals the rare ones are left out, and named."""
    sizes = {1000 * number: number for number in range(1, 11)}
    asked = _asked(_device(percent=50), facts=ClusterFacts(gpus_by_memory_mib=sizes))
    assert _names(asked) == [f"{1000 * number}mib" for number in range(3, 11)]
    (warning,) = _warnings(asked)
    assert (warning.code, warning.value) == ("AlternativesDropped", "1000, 2000")


def test_sizes_go_before_closeness_and_closeness_before_fill() -> None:
    """Eight combinations is all there is; what has no room is named."""
    preferences = Preferences(gpu_policies=("numa", "binpack"))
    device = _device(count=2, percent=50)

    def facts(number: int) -> ClusterFacts:
        sizes = {1000 * each: 1 for each in range(1, number + 1)}
        return ClusterFacts(gpus_by_memory_mib=sizes, fill_levels=True)

    one = _asked(device, preferences, facts(1))
    assert len(_names(one)) == 8
    assert _names(one)[0] == "numa-from3-1000mib"
    assert _names(one)[-1] == "1000mib"
    assert _warnings(one) == []

    two = _asked(device, preferences, facts(2))
    assert _names(two)[:3] == ["numa-from1-1000mib", "numa-from1-2000mib", "numa-1000mib"]
    assert len(_names(two)) == 8
    assert _warnings(two)[0].value == "binpack in 4 steps (now 2)"

    four = _asked(device, preferences, facts(4))
    assert [name for name in _names(four) if name.startswith("numa-")] == _names(four)[:4]
    assert _warnings(four)[0].value == "binpack in 4 steps (now 1)"

    five = _asked(device, preferences, facts(5))
    assert _names(five) == [f"{1000 * each}mib" for each in range(1, 6)]
    assert "devices of one numaNode" in _warnings(five)[0].value


def test_topology_goes_before_the_numa_node_and_that_before_anywhere() -> None:
    """Several wishes of closeness are tried from the nearest on."""
    preferences = Preferences(gpu_policies=("topology-aware", "numa"))
    assert _names(_asked(_device(count=2), preferences)) == ["root-share", "numa-share", "share"]
    assert _names(_asked(_device(count=1), preferences)) == ["share"]


def test_many_single_requests_leave_no_room_for_closeness() -> None:
    """A constraint names at most 32 requests: on old clusters each GPU is one."""
    facts = ClusterFacts(gpus_by_memory_mib={1000: 1, 2000: 1}, counts_are_distinct=False)
    preferences = Preferences(gpu_policies=("numa",))
    few = _asked(_device(count=16, percent=50), preferences, facts)
    many = _asked(_device(count=17, percent=50), preferences, facts)
    assert len(_names(few)) == 4
    assert len(_names(many)) == 2
    assert _warnings(many)[-1].code == "AlternativesDropped"


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (_asked(_device(count=33)), "TooManyDevices"),
        (_asked(_device(percent=50)), "NoSizesKnown"),
        (_asked(preferences=Preferences(gpu_policies=("mutex",))), "NoSharesKnown"),
        (_asked(preferences=Preferences(modes="mps")), "ModeNotServed"),
        (_asked(_device(percent=50), Preferences(modes="mig")), "MigNeedsMemory"),
        (_asked(_device(percent=100), Preferences(modes="mig")), "MigNeedsMemory"),
        (_asked(_device(priority=2)), "PriorityOutOfRange"),
        (_asked(preferences=Preferences(use_uuids=('GPU-1"]',))), "UuidInvalid"),
        (_asked(preferences=Preferences(nouse_uuids=("card-1",))), "UuidInvalid"),
        (_asked(preferences=Preferences(use_types=("x" * 11_000,))), "CannotBeClaimed"),
    ],
)
def test_what_no_claim_can_say_is_refused(asked: Asked, code: str) -> None:
    """The reason names the field and the limit."""
    with pytest.raises(RefusedError) as caught:
        wished(asked)
    assert caught.value.refusal.code == code
    assert caught.value.refusal.field
    assert caught.value.refusal.limit


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (_asked(_device(priority=0)), "PriorityWithoutEffect"),
        (_asked(preferences=Preferences(gpu_policies=("spread",))), "WithoutEffect"),
        (_asked(preferences=Preferences(node_policy="binpack")), "WithoutEffect"),
        (
            _asked(
                preferences=Preferences(modes="mig"),
                facts=ClusterFacts(mig_by_memory_mib={500: 1}),
            ),
            "NoSuchMigDevice",
        ),
        (
            _asked(
                _device(percent=50),
                Preferences(modes="hami-core,mig"),
                ClusterFacts(gpus_by_memory_mib={1000: 1}),
            ),
            "MigNotTried",
        ),
        (
            _asked(
                _device(count=2),
                Preferences(modes="hami-core,mig"),
                ClusterFacts(counts_are_distinct=False),
            ),
            "MigNotTried",
        ),
        (
            _asked(
                _device(count=5, percent=50), facts=ClusterFacts(gpus_by_memory_mib={1: 1, 2: 1})
            ),
            "OneSizeForAll",
        ),
    ],
)
def test_what_a_claim_says_otherwise_is_a_warning(asked: Asked, code: str) -> None:
    """Nothing is lost in silence."""
    assert [warning.code for warning in _warnings(asked)] == [code]


def test_settings_stand_in_for_gpus_that_are_to_come() -> None:
    """As soon as there is one GPU, only what is published counts."""
    later = TranslationSettings(fallback_sizes_mib=(24564, 81920), fallback_shares=(10,))
    assert _names(_asked(_device(percent=50), settings_=later)) == ["24564mib", "81920mib"]
    mutex = Preferences(gpu_policies=("mutex",))
    assert _names(_asked(preferences=mutex, settings_=later)) == ["alone10"]
    facts = ClusterFacts(gpus_by_memory_mib={1000: 1}, gpus_by_shares={7: 1})
    assert _names(_asked(_device(percent=50), mutex, facts, later)) == ["1000mib-alone7"]


def test_a_wish_for_fill_needs_levels_that_are_published() -> None:
    """The administrator may turn the wishes off as well."""
    spread = Preferences(gpu_policies=("spread",), node_policy="binpack")
    facts = ClusterFacts(fill_levels=True)
    asked = _asked(preferences=spread, facts=facts)
    assert _names(asked) == ["below1-share", "below2-share", "below3-share", "share"]
    assert [each.field for each in _warnings(asked)] == [
        "metadata.annotations[hami.io/node-scheduler-policy]"
    ]
    off = TranslationSettings(prefer_fill_levels=False)
    assert _names(_asked(preferences=spread, facts=facts, settings_=off)) == ["share"]
    whole = _asked(_device(percent=100, cores=100), spread, facts)
    assert _names(whole) == ["whole"]
