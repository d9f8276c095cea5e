"""Nodes on which something is wrong: the agent says what, goes on where it can, and recovers."""

from pathlib import Path

import pytest

from dra.generations import FORMAT_VERSION
from dra.journal import encode_line
from tests.agent.control_plane import Claim, JsonObject, config, share, whole
from tests.agent.damage import damage_one
from tests.agent.host import Holdings, Host, held
from tests.agent.kubelet import answer
from tests.agent.mounts import fill, may_mount, read_only, small_disk
from tests.agent.scene import Scene
from tests.patience import eventually

needs_mounts = pytest.mark.skipif(not may_mount(), reason="the right to mount is needed")


def prepared(stage: Scene) -> tuple[Claim, JsonObject]:
    """Prepare a share and return the claim and its result."""
    result = share(stage.host.device(0))
    claim = stage.control.claim(result)
    assert stage.kubelet.prepare(claim) == answer(claim, result)
    return claim, result


def snapshots(host: Host) -> list[Path]:
    """Return the snapshots of the state, oldest first."""
    return sorted(host.state.glob("snapshot.*"))


def check_refuses_to_start(stage: Scene, *parts: str) -> None:
    """Check that an agent ends with status 1 and a sentence that has all *parts*."""
    before = {path.name: path.read_bytes() for path in stage.host.state.iterdir()}
    agent = stage.agent()
    assert agent.wait_ended() == 1
    reason = agent.wait_logged("plugin not started")["reason"]
    assert not [part for part in parts if part not in reason], reason
    assert {path.name: path.read_bytes() for path in stage.host.state.iterdir()} == before


def test_the_state_of_a_newer_version_ends_the_start(stage: Scene) -> None:
    """A downgrade does not overwrite what it does not understand."""
    stage.started().kill()
    newest = snapshots(stage.host)[-1]
    newest.write_bytes(encode_line({"version": FORMAT_VERSION + 1, "claims": {}}))

    known = f"this version knows {FORMAT_VERSION}; run the version of the agent that wrote it"
    check_refuses_to_start(stage, f"{newest}: has format {FORMAT_VERSION + 1}, {known}")


def test_one_damaged_snapshot_costs_nothing(stage: Scene) -> None:
    """The generation before it and the journals say the same."""
    stage.started().kill()
    second = stage.started()
    claim, result = prepared(stage)
    second.kill()
    damage_one(snapshots(stage.host)[-1])

    last = stage.started()

    assert last.wait_logged("state snapshot found damaged")["level"] == "warning"
    assert stage.host.holdings() == held(claim.uid)
    assert stage.kubelet.prepare(claim) == answer(claim, result)


def test_a_read_only_cdi_directory_is_named(stage: Scene) -> None:
    """A claim that cannot be prepared holds nothing; one that is prepared stays prepared."""
    host, kubelet = stage.host, stage.kubelet
    agent = stage.started()
    kept, kept_result = prepared(stage)
    result = share(host.device(0), "1000Mi")
    claim = stage.control.claim(result)

    with read_only(host.cdi):
        error = kubelet.prepare(claim).error
        assert error.startswith("SpecNotWritable: claim.uid: ")
        assert str(host.cdi) in error
        assert claim.uid in error
        assert host.holdings() == held(kept.uid)
        assert list(agent.metrics()["gpuslice_granted_memory_mib"].values()) == [3000.0]
        assert kubelet.unprepare(claim) == ""
        assert kubelet.unprepare(kept).startswith("SpecNotWritable: claim.uid: ")
        assert host.holdings() == held(kept.uid)

    assert kubelet.prepare(claim) == answer(claim, result)
    assert kubelet.prepare(kept) == answer(kept, kept_result)
    assert kubelet.unprepare(kept) == ""
    assert host.holdings() == held(claim.uid)


@needs_mounts
def test_a_full_disk_below_the_state_is_named(stage: Scene) -> None:
    """What was recorded before stays; what cannot be recorded is not done."""
    host, kubelet = stage.host, stage.kubelet
    with small_disk(host.state, size_kib=64):
        agent = stage.started()
        kept, result = prepared(stage)
        filler = fill(host.state)

        recorded = [kept.uid]
        while True:
            # The last page of the journal still has room for a few.
            claim = stage.control.claim(share(host.device(1), "1Mi", "0"))
            error = kubelet.prepare(claim).error
            if error:
                break
            recorded.append(claim.uid)

        assert error.startswith("StateNotWritable: claim.uid: ")
        assert str(host.state) in error
        assert "No space left on device" in error
        assert host.holdings() == held(*recorded)
        assert kubelet.prepare(kept) == answer(kept, result)
        filler.unlink()
        assert kubelet.prepare(claim).error == ""
        assert host.holdings() == held(*recorded, claim.uid)
        assert agent.terminate() == 0


@needs_mounts
def test_a_full_disk_below_the_state_does_not_end_the_start(stage: Scene) -> None:
    """Claims can still be looked up after a restart."""
    with small_disk(stage.host.state, size_kib=64):
        first = stage.started()
        claim, result = prepared(stage)
        first.kill()
        fill(stage.host.state)

        last = stage.started()

        assert "No space left on device" in last.wait_logged("state not compacted")["reason"]
        assert stage.kubelet.prepare(claim) == answer(claim, result)
        assert last.terminate() == 0


@needs_mounts
def test_a_full_disk_below_the_cdi_directory_is_named(stage: Scene) -> None:
    """A spec that does not fit leaves neither half a file nor a claim that holds anything."""
    host, kubelet = stage.host, stage.kubelet
    with small_disk(host.cdi, size_kib=64):
        agent = stage.started()
        filler = fill(host.cdi)
        result = share(host.device(0))
        claim = stage.control.claim(result)

        error = kubelet.prepare(claim).error

        assert error.startswith("SpecNotWritable: claim.uid: ")
        assert "No space left on device" in error
        assert host.holdings() == Holdings(other=frozenset([filler.name]))
        filler.unlink()
        assert kubelet.prepare(claim) == answer(claim, result)
        assert host.holdings() == held(claim.uid)
        assert agent.terminate() == 0


def test_an_agent_waits_for_the_driver(stage: Scene) -> None:
    """Without a driver the agent says where it looked; with one it serves, without a restart."""
    host = stage.host
    host.remove_driver()
    agent = stage.started("--scan-interval-s", "0.05")
    result = share(host.device(0))
    claim = stage.control.claim(result)

    reason = agent.wait_logged("inventory not available")["reason"]
    status, ready = agent.ask("/readyz")
    error = stage.kubelet.prepare(claim).error

    assert status == 503
    for place in ("/run/nvidia/driver", "/home/kubernetes/bin/nvidia", "usr/lib64"):
        assert place in ready
    assert f"gpus: failed: {reason}\n" in ready
    assert error.startswith("NodeNotReady: node: `inventory`; no NVIDIA driver")
    assert reason in error
    assert host.holdings() == Holdings()
    assert agent.ask("/healthz")[0] == 200

    host.install_driver()
    eventually(lambda: "gpus: ok\n" in agent.ask("/readyz")[1])
    assert stage.kubelet.prepare(claim) == answer(claim, result)


def test_shares_need_the_library_that_limits_them(stage: Scene) -> None:
    """Without HAMi-core only those are prepared that may run without limits."""
    host, control, kubelet = stage.host, stage.control, stage.kubelet
    host.library.unlink()
    stage.started()
    results = [share(host.device(0)), share(host.device(0)), whole(host.partition(2, 0))]
    limited = control.claim(results[0])
    unlimited = control.claim(results[1], configs=[config("FromClass", enforcement="none")])
    partition = control.claim(results[2])

    error = kubelet.prepare(limited).error

    assert error.startswith("LibraryMissing: node: `libvgpu.so`; ")
    assert str(host.library) in error
    assert kubelet.prepare(unlimited) == answer(unlimited, results[1])
    assert kubelet.prepare(partition) == answer(partition, results[2])
    assert host.holdings() == held(whole=frozenset([unlimited.uid, partition.uid]))


def test_an_api_server_that_is_away_stops_only_prepares(stage: Scene) -> None:
    """Claims are released without it; a prepare is refused with the reason and works later."""
    host, control, kubelet = stage.host, stage.control, stage.kubelet
    stage.started()
    ended, _ = prepared(stage)
    result = share(host.device(0))
    claim = control.claim(result)

    control.run(control.server.pause())
    error = kubelet.prepare(claim).error

    assert error.startswith(f"ApiUnreachable: claim: `default/{claim.name} uid {claim.uid}`; ")
    assert kubelet.unprepare(ended) == ""
    assert host.holdings() == Holdings()
    control.run(control.server.resume())
    assert kubelet.prepare(claim) == answer(claim, result)
