"""The forms in which the device plugin answers kubelet, and a pod that shows what comes of one."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tests.cluster.scenes.cards import Cards, expect_given, expect_none, pod
from tests.cluster.scenes.expectations import A10, T4
from tests.cluster.scenes.extenders import LOCK
from tests.patience import eventually

VISIBLE: Final = "NVIDIA_VISIBLE_DEVICES"
_STRATEGY: Final = "--device-list-strategy"
_NODES: Final = "--pass-device-specs"
_VOLUMES: Final = "/nvidia-container-devices/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """One way to answer."""

    strategy: str
    passes_nodes: bool = False

    @property
    def flags(self) -> dict[str, object]:
        """What an agent is told to answer so."""
        return {_STRATEGY: self.strategy} | ({_NODES: None} if self.passes_nodes else {})

    @property
    def with_nodes(self) -> bool:
        """Whether device nodes come without NVIDIA's own runtime, which is not here."""
        return self.passes_nodes or "cdi" in self.strategy

    def visible(self, uuids: Sequence[str]) -> str:
        """Return what NVIDIA's own runtime is told; CDI's devices are none of its business."""
        if "cdi" in self.strategy:
            return "void"
        return ",".join(uuids) if self.strategy == "envvar" else "/var/run/nvidia-container-devices"


FORMS: Final = (
    Form(strategy="envvar"),
    Form(strategy="envvar", passes_nodes=True),
    Form(strategy="volume-mounts"),
    Form(strategy="cdi-annotations"),
    Form(strategy="cdi-cri"),
    Form(strategy="envvar,cdi-cri"),
)


def play(cards: Cards, name: str, form: Form) -> None:
    """Answer in *form* for an init container and three others, of which one asks for nothing."""
    cards.serve(form.flags)
    stage = cards.stage
    one = {"gpu": "1", "gpumem": "2000", "gpucores": "30"}
    first = {"gpu": "1", "gpumem": "3000"}
    wanted = (one, {"gpu": "2", "gpumem": "1k"}, None)
    stage.create(pod(name, *wanted, node=cards.node, inits=[first], use_gputype="A10,T4"))
    alone, both, nothing, init = (stage.report(name, each) for each in ("c0", "c1", "c2", "i0"))
    (product,) = (each for each in (A10, T4) if cards.card(each)["id"] in cards.given(name, 1))
    expect_given(alone, {product: ("2000m", "30")}, with_nodes=form.with_nodes)
    halves = {T4: ("1000m", "100"), A10: ("1000m", "100")}
    expect_given(both, halves, with_nodes=form.with_nodes)
    assert init.limits() == (("3000m", "100"),)
    expect_none(nothing)
    uuids = [cards.card(each)["id"] for each in (T4, A10)]
    assert both.env[VISIBLE] == form.visible(uuids)
    mounted = {path.rpartition("/")[2] for path in both.mounts if _VOLUMES in path}
    assert mounted == (set(uuids) if form.strategy == "volume-mounts" else set())
    eventually(lambda: cards.phase(name) == "success")
    eventually(lambda: LOCK not in cards.annotations())
    eventually(lambda: cards.held(name, "c0") == 1)
    eventually(lambda: cards.held(name, "c1") == 2)
    stage.delete("Pod", name)
    cards.expect_nothing_left()
