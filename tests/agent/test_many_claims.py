"""Many pods at once: kubelet syncs them in parallel, so calls overlap in every way."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.agent.control_plane import Claim, JsonObject, share
from tests.agent.host import Holdings, held
from tests.agent.kubelet import answer
from tests.agent.scene import Scene, scene

GPUS = 8
CLAIMS = 200
PER_GPU = CLAIMS // GPUS
CORES = 100 // PER_GPU


@pytest.fixture
def stage() -> Iterator[Scene]:
    """Make a node whose GPUs the claims of the test fill exactly."""
    with scene(f"gpus: [{{profile: h100-80gb, count: {GPUS}}}]") as made:
        yield made


def test_two_hundred_claims_at_once(stage: Scene) -> None:
    """Every claim is answered as if it were alone, and all is given back in the end."""
    host, kubelet = stage.host, stage.kubelet
    agent = stage.started("--shares-per-gpu", str(PER_GPU), "--restore-interval-s", "0.1")
    devices = [host.device(index % GPUS) for index in range(CLAIMS)]
    results: list[JsonObject] = [share(device, "3000Mi", str(CORES)) for device in devices]
    claims: list[Claim] = [stage.control.claim(result) for result in results]
    expected = {
        claim.uid: answer(claim, result) for claim, result in zip(claims, results, strict=True)
    }
    batches = [claims[start : start + 4] for start in range(0, CLAIMS, 4)]
    with ThreadPoolExecutor(16) as pool:
        answers = pool.map(lambda batch: dict(kubelet.prepare_all(*batch).claims), batches)
        assert {uid: entry for entries in answers for uid, entry in entries.items()} == expected
        assert host.holdings() == held(*expected)
        full = stage.control.claim(share(devices[0], "1Mi", "0"))
        assert kubelet.prepare(full).error.startswith("CapacityExceeded: ")

        ended, running = claims[::2], claims[1::2]
        ending = {claim.uid for claim in ended}
        said = list(
            pool.map(
                lambda claim: (
                    kubelet.unprepare(claim)
                    if claim.uid in ending
                    else kubelet.prepare(claim) == expected[claim.uid]
                ),
                claims,
            )
        )
        assert set(said) == {"", True}
        assert host.holdings() == held(*(claim.uid for claim in running))
        check_metrics(stage, agent.metrics(), running)

        assert set(pool.map(kubelet.unprepare, running)) == {""}
    assert host.holdings() == Holdings()


def check_metrics(
    stage: Scene, metrics: dict[str, dict[tuple[str, ...], float]], running: list[Claim]
) -> None:
    """Check that the metrics say what the calls came to."""
    assert metrics["gpuslice_prepared_claims"] == {(): len(running)}
    assert metrics["gpuslice_prepare_total"] == {
        ("ok",): CLAIMS + len(running),
        ("CapacityExceeded",): 1,
    }
    assert metrics["gpuslice_unprepare_total"] == {("ok",): CLAIMS - len(running)}
    granted: dict[str, list[float]] = {gpu.uuid: [0, 0, 0] for gpu in stage.host.gpus}
    for position, name in enumerate(("memory_mib", "cores_percent", "shares")):
        for labels, value in metrics[f"gpuslice_granted_{name}"].items():
            granted[labels[-1]][position] += value
    # Every second claim ended, which are those of every second GPU.
    full, empty = [3000 * PER_GPU, CORES * PER_GPU, PER_GPU], [0, 0, 0]
    assert list(granted.values()) == [empty, full] * (GPUS // 2)
