"""What users gain who write themselves what schedulers write, where no webhook keeps them from it.

Over HTTP, with an extender beside a simulated API server. Nothing may be gained; what somebody can
still do to others is in `docs/extender.md`.
"""

import json
from collections.abc import Iterator
from typing import Any, Final

import pytest

from tests.extender.playing import ALLOCATED, NODE, PHASE, TO_ALLOCATE, Play, playing
from tests.patience import eventually

_ALL: Final = "GPU-a,NVIDIA,16384,100:;"
_LITTLE: Final = "GPU-a,NVIDIA,1,0:;"
_FORGED: Final = {
    NODE: "n",
    ALLOCATED: _ALL,
    TO_ALLOCATE: _ALL,
    PHASE: "allocating",
    "hami.io/bind-time": "1",
    "hami.io/vgpu-time": "1",
    "hami.io/dcu-devices-allocated": "DCU-x,DCU,1,1:;",
    "hami.io/vgpu-mig-allocations": "nonsense",
}


@pytest.fixture(name="shared", scope="module")
def _shared() -> Iterator[Play]:
    with playing() as play:
        yield play


@pytest.fixture(name="play")
def _play(shared: Play) -> Iterator[Play]:
    shared.add_node("n", "GPU-a")
    yield shared
    shared.clear()


def _refusal(answer: Any, node: str = "n") -> str:
    assert isinstance(answer, dict), answer
    told: dict[str, str] = {
        **(answer.get("FailedNodes") or {}),
        **(answer.get("FailedAndUnresolvableNodes") or {}),
    }
    return told[node]


def test_forged_keys_are_replaced_by_the_decision(play: Play) -> None:
    """A pod that comes with all of them is placed as any other, and none of them is left."""
    play.add_pod("p", annotations=_FORGED, labels={NODE: "m"}, gpu=1, gpumem=4000)
    assert play.schedule("p", "n") == "n"
    written = play.annotations("p")
    assert written[ALLOCATED] == written[TO_ALLOCATE] == "GPU-a,NVIDIA,4000,0:;"
    assert written["hami.io/bind-time"] != "1"
    assert not written.keys() & {"hami.io/dcu-devices-allocated", "hami.io/vgpu-mig-allocations"}
    assert play.pod("p")["metadata"]["labels"] == {NODE: "n"}


def test_nonsense_on_waiting_pods_closes_no_node(play: Play) -> None:
    """Whoever their scheduler is."""
    for number, text in enumerate(("GPU-a,NVIDIA:;", "GPU-zz,NVIDIA,1,1:;", "x" * 200_000)):
        forged = {NODE: "n", ALLOCATED: text}
        play.add_pod(f"f{number}", annotations=forged, spec={"schedulerName": "none"}, gpu=1)
    play.add_pod("p", gpu=1, gpumem=16384)
    assert play.schedule("p", "n") == "n"


@pytest.mark.parametrize("node", ["", "n"])
def test_a_pod_that_wants_no_devices_holds_none(play: Play, node: str) -> None:
    """On no node or on one, by whatever is written on it."""
    spec = {"schedulerName": "none"} | ({"nodeName": node} if node else {})
    play.add_pod("forged", annotations=_FORGED, spec=spec)
    play.add_pod("p", gpu=1, gpumem=16384)
    assert play.schedule("p", "n") == "n"


def test_a_pod_that_is_put_on_a_node_holds_all_that_it_may_be_handed_out(play: Play) -> None:
    """Its user says that it has little, and has the plugin told that it gets everything."""
    lists = {NODE: "n", ALLOCATED: _LITTLE, TO_ALLOCATE: _ALL, PHASE: "allocating"}
    play.add_pod("forged", annotations=lists, spec={"nodeName": "n"}, gpu=1)
    play.add_pod("p", gpu=1, gpumem=1000)
    text = _refusal(eventually(lambda: _not_placed(play, "p")))
    assert text == f"pod default/forged: {_STRAYS}"
    play.drop_pod("forged")
    assert eventually(lambda: play.fits("p", "n"))


_STRAYS: Final = "it is to be handed out other devices than it is said to have"


def _not_placed(play: Play, name: str) -> Any:
    found = play.filter(name, "n")
    return found if isinstance(found, dict) else None


def test_a_pod_that_is_put_on_a_node_and_says_nothing(play: Play) -> None:
    """While it starts it holds nothing; should it run all the same its node is closed."""
    play.add_pod("forged", spec={"nodeName": "n"}, gpu=1)
    play.add_pod("p", gpu=1, gpumem=1000)
    assert play.fits("p", "n")
    play.say("forged", "Running")
    assert "of which nothing is written" in _refusal(eventually(lambda: _not_placed(play, "p")))
    play.say("forged", "Failed")
    assert eventually(lambda: play.fits("p", "n"))


def test_a_pod_on_one_node_takes_nothing_of_another(play: Play) -> None:
    """What it is said to have elsewhere closes the node that it runs on, and no other."""
    play.add_node("m", "GPU-b")
    forged = {NODE: "m", ALLOCATED: "GPU-b,NVIDIA,16384,100:;"}
    play.add_pod("forged", annotations=forged, spec={"nodeName": "n"}, gpu=1)
    play.add_pod("p", gpu=1, gpumem=16384)
    text = _refusal(eventually(lambda: _not_placed(play, "p")))
    assert text == "pod default/forged runs here, but its allocation is for m"
    assert play.schedule("p", "n", "m") == "m"


_EDITS: Final[tuple[dict[str, str | None], ...]] = (
    {ALLOCATED: None},
    {NODE: None},
    {ALLOCATED: None, NODE: None, TO_ALLOCATE: None, PHASE: None},
    {ALLOCATED: ";"},
    {ALLOCATED: "GPU-zz,NVIDIA,10,0:;"},
    {ALLOCATED: "nonsense"},
    {NODE: "elsewhere"},
)


def _shown(edit: dict[str, str | None]) -> str:
    return ",".join(f"{key.removeprefix('hami.io/')}={text}" for key, text in edit.items())


@pytest.mark.parametrize("edit", [*_EDITS, {ALLOCATED: _LITTLE}], ids=_shown)
def test_a_running_pod_frees_nothing_by_its_annotations(
    play: Play, edit: dict[str, str | None]
) -> None:
    """Another one that needs what it has is refused until it ends."""
    _edited(play, edit)
    for _ in range(10):
        assert not play.fits("q", "n")
    play.drop_pod("p")
    assert eventually(lambda: play.fits("q", "n"))


@pytest.mark.parametrize("edit", _EDITS, ids=_shown)
def test_a_new_process_cannot_be_told_nonsense(play: Play, edit: dict[str, str | None]) -> None:
    """It does not know what was there before, but sees that this is not all."""
    _edited(play, edit)
    play.restart()
    assert not play.fits("q", "n")
    play.drop_pod("p")
    assert eventually(lambda: play.fits("q", "n"))


def _edited(play: Play, edit: dict[str, str | None]) -> None:
    """Run a pod that has the whole GPU and then says something else, and another that waits."""
    play.add_pod("p", gpu=1, gpumem=16384, gpucores=100)
    assert play.schedule("p", "n") == "n"
    play.hand_out("p")
    play.annotate("p", edit)
    play.add_pod("q", gpu=1, gpumem=9000)


def test_a_running_pod_that_claims_more_pays_for_it(play: Play) -> None:
    """It is counted with both, until it ends."""
    play.add_pod("p", gpu=1, gpumem=1000)
    assert play.schedule("p", "n") == "n"
    play.hand_out("p")
    play.add_pod("q", gpu=1, gpumem=9000)
    assert play.fits("q", "n")
    play.annotate("p", {ALLOCATED: _ALL})
    assert eventually(lambda: not play.fits("q", "n"))
    play.annotate("p", {ALLOCATED: "GPU-a,NVIDIA,1000,0:;"})
    play.drop_pod("p")
    assert eventually(lambda: play.fits("q", "n"))


@pytest.mark.parametrize(
    "said",
    [
        {"devmem": 10**12},
        {"devmem": -1},
        {"count": -1},
        {"count": 2**40},
        {"devcore": 10**10},
        {"id": "GPU-a"},
        {"id": "GPU-b:GPU-c"},
    ],
    ids=str,
)
def test_a_node_that_registers_nonsense_gets_no_pods(play: Play, said: dict[str, Any]) -> None:
    """Others do, and the node says why."""
    play.add_node("good", "GPU-g")
    devices = [{"id": "GPU-a", "count": 10, "devmem": 16384, "devcore": 100, "type": "T4"}]
    devices += [{**devices[0], "id": "GPU-b", **said}]
    play.change_node("n", register=json.dumps(devices))
    play.add_pod("p", gpu=1, gpumem=1000)
    text = _refusal(eventually(lambda: _not_placed(play, "p")))
    assert text.startswith("cannot read what it registers for NVIDIA: ")
    assert play.schedule("p", "n", "good") == "good"


def test_a_node_that_registers_the_device_of_another_harms_nobody(play: Play) -> None:
    """Each node has what it says and what runs on it."""
    play.add_node("liar", "GPU-a")
    play.add_pod("p", gpu=1, gpumem=16384, gpucores=100)
    play.add_pod("q", gpu=1, gpumem=16384, gpucores=100)
    assert play.schedule("p", "liar") == "liar"
    assert play.schedule("q", "n", "liar") == "n"


def test_annotations_as_long_as_can_be_delay_nobody(play: Play) -> None:
    """A quarter of a megabyte, which is all that the API server takes."""
    play.add_node("long", "GPU-l")
    for text in ("[" * 250_000, ":" * 250_000, "9" * 250_000):
        play.change_node("long", register=text)
        play.add_pod(f"f{ord(text[0])}", annotations={NODE: "n", ALLOCATED: text}, gpu=1)
    play.add_pod("p", gpu=1, gpumem=1000)
    assert play.schedule("p", "n", "long") == "n"
