"""Who shares a claim with whom, and what it is called."""

import re

from hypothesis import given
from hypothesis import strategies as st

from hami import resources
from hami.containers import JsonObject
from hami.deviceconfig import DeviceConfig
from hami.requests import Valid
from tests.webhook.translating import a_container, a_pod, a_sidecar
from webhook.podclaims import entry_name, grouped, held_too_long


def _groups(pod: JsonObject) -> list[list[str]]:
    return [[each.name for each in claim.containers] for claim in _claims(pod)]


def _claims(pod: JsonObject) -> tuple:  # type: ignore[type-arg]
    valid = resources.read(pod, DeviceConfig())
    assert isinstance(valid, Valid)
    return grouped(valid.requests)


def test_an_init_container_uses_the_claim_of_an_app_that_asks_the_same() -> None:
    """It ends before the app begins, so the GPU is enough for both."""
    pod = a_pod(
        a_container("one", gpu=1, gpumem=1000),
        a_container("two", gpu=1, gpumem=2000),
        a_container("none"),
        inits=[a_container("first", gpu=1, gpumem=2000), a_container("next", gpu=1, gpumem=2000)],
    )
    assert _groups(pod) == [["one"], ["first", "next", "two"]]


def test_two_apps_never_share_a_claim() -> None:
    """They run beside each other; the init container goes with the first."""
    same = {"gpu": 1, "gpumem": 1000}
    pod = a_pod(
        a_container("one", **same), a_container("two", **same), inits=[a_container("i", **same)]
    )
    assert _groups(pod) == [["i", "one"], ["two"]]


def test_a_sidecar_has_a_claim_of_its_own() -> None:
    """It runs beside the init containers after it and beside the apps."""
    same = {"gpu": 1, "gpumem": 1000}
    pod = a_pod(
        a_container("app", **same), inits=[a_sidecar("side", **same), a_container("i", **same)]
    )
    assert _groups(pod) == [["side"], ["i", "app"]]
    alone = a_pod(a_container("app"), inits=[a_sidecar("side", **same), a_container("i", **same)])
    assert _groups(alone) == [["side"], ["i"]]


def test_init_containers_that_ask_the_same_share_among_themselves() -> None:
    """They run one after the other; what they hold is named."""
    pod = a_pod(
        a_container("app", gpu=1, gpumem=500),
        inits=[a_container(name, gpu=1, gpumem=3000) for name in ("a", "b")],
    )
    assert _groups(pod) == [["app"], ["a", "b"]]
    (warning,) = held_too_long(_claims(pod))
    assert (warning.code, warning.value) == ("InitClaimAddsUp", "a")
    assert "for the pod's whole life" in warning.limit


def test_the_name_is_that_of_the_container() -> None:
    """Users find it in the pod."""
    assert entry_name("main", ()) == "gpu-main"


def test_a_taken_or_long_name_gets_a_hash() -> None:
    """Two containers with the same beginning have different claims, always with the same name."""
    assert re.fullmatch(r"gpu-main-[0-9a-f]{8}", entry_name("main", {"gpu-main"}))
    long = "the-main-model-serving-container-with-a-long-name-too-long-end"
    assert re.fullmatch(r"gpu-the-main-model-[a-z-]+-[0-9a-f]{8}", entry_name(long, ()))
    assert entry_name(long, ()) != entry_name(long[:-1] + "x", ())
    assert entry_name(long, ()) == entry_name(long, {"gpu-main"})


@given(
    container=st.text(max_size=80) | st.from_regex(r"[a-z0-9-]{1,63}", fullmatch=True),
    taken=st.sets(st.sampled_from(["gpu-main", "gpu-a"])),
)
def test_every_name_is_a_label_that_is_free(container: str, taken: set[str]) -> None:
    """Whatever the container is called and the user has named, also once more."""
    first = entry_name(container, taken)
    second = entry_name(container, {*taken, first})
    for name in (first, second):
        assert re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", name)
    assert first not in taken
    assert second not in {*taken, first}
