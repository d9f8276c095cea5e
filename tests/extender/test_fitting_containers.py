"""Init containers, sidecars and apps of one pod."""

from copy import deepcopy

import pytest

from extender.model import Misfit
from tests.extender.nodes import (
    NoMore,
    container,
    device,
    fit,
    gpus,
    limited,
    mig_gpu,
    node,
    placed,
    pod,
    text,
    uuids,
)


def test_an_init_container_takes_what_apps_take_later() -> None:
    """All of the only GPU, one after the other."""
    whole = container("c", gpu=1)
    found = placed(fit(gpus(1), pod(whole, init=[container("i", gpu=1), container("j", gpu=1)])))
    assert uuids(found) == "G0 | G0 | G0"


def test_a_sidecar_stays_beside_apps_and_later_init_containers() -> None:
    """Those that come before it do not meet it."""
    sidecar = {**container("s", gpu=1, mem=30000), "restartPolicy": "Always"}
    init = container("i", gpu=1, mem=30000)
    app = container("c", gpu=1, mem=10000)
    assert uuids(fit(gpus(1), pod(app, init=[init, sidecar]))) == "G0 | G0 | G0"
    assert text(fit(gpus(1), pod(app, init=[sidecar, init]))) == "1/1 CardInsufficientMemory"
    large = container("c", gpu=1, mem=20000)
    assert text(fit(gpus(1), pod(large, init=[sidecar]))) == "1/1 CardInsufficientMemory"


@pytest.mark.parametrize(("mib", "fits"), [(5000, True), (4999, False)])
def test_a_quota_counts_peaks(mib: int, fits: bool) -> None:  # noqa: FBT001
    """An init container and the apps are not added up on the same GPU."""
    raw = pod(
        container("a", gpu=1, mem=2000),
        container("b", gpu=1, mem=3000),
        init=[container("i", gpu=1, mem=4000)],
    )
    found = fit(gpus(1), raw, room=NoMore(mib))
    assert isinstance(found, Misfit) != fits


def test_a_node_stays_as_it_is() -> None:
    """Whatever is tried on it."""
    on = node(mig_gpu(), device("G1", 1))
    untouched = deepcopy(on)
    raw = pod(
        container("a", gpu=2, mem=4000),
        container("b", gpu=1),
        init=[container("i", gpu=1)],
    )
    fit(on, raw)
    fit(on, pod(limited(gpu=1, mem=50000)))
    assert on == untouched
