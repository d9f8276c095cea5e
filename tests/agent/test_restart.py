"""An agent that is restarted while pods run, and a node that lost what is not durable."""

import shutil
from pathlib import Path

from tests.agent.control_plane import Claim, JsonObject, share, whole
from tests.agent.host import Holdings, Host, held
from tests.agent.kubelet import answer
from tests.agent.scene import Scene
from tests.patience import eventually


class Prepared:
    """Three claims that pods use: a share, three shares of two GPUs, and a MIG device."""

    def __init__(self, stage: Scene) -> None:
        host = stage.host
        self._results: list[list[JsonObject]] = [
            [share(host.device(0))],
            [
                share(host.device(0), "1Gi", "0"),
                share(host.device(0), "2Gi", "10", request="b"),
                share(host.device(1), request="c"),
            ],
            [whole(host.partition(2, 0))],
        ]
        self.claims: list[Claim] = [stage.control.claim(*each) for each in self._results]
        limited = [claim.uid for claim in self.claims[:2]]
        self.holdings = held(*limited, whole=frozenset([self.claims[2].uid]))

    def expected(self) -> list[bytes]:
        """Return the answers as bytes."""
        pairs = zip(self.claims, self._results, strict=True)
        return [answer(claim, *results).SerializeToString() for claim, results in pairs]

    def specs(self, host: Host) -> list[bytes]:
        """Return the CDI specs as they are on the disk."""
        return [host.spec(claim.uid).read_bytes() for claim in self.claims]


def prepare(stage: Scene, claims: list[Claim]) -> list[bytes]:
    """Prepare *claims* and return the answers as bytes."""
    return [stage.kubelet.prepare(claim).SerializeToString() for claim in claims]


def identity(path: Path) -> tuple[int, int, int]:
    """Return what changes when a file is replaced or written."""
    found = path.stat()
    return found.st_dev, found.st_ino, found.st_mtime_ns


def test_a_restart_changes_nothing_for_running_pods(stage: Scene) -> None:
    """Answers are byte-equal, and neither regions nor CDI specs are touched by the restart."""
    host = stage.host
    first = stage.started()
    prepared = Prepared(stage)
    before = prepare(stage, prepared.claims)
    limited = [claim.uid for claim in prepared.claims[:2]]
    specs, regions = map(host.spec, limited), map(host.region, limited)
    files = {path: identity(path) for path in [*specs, *regions]}
    assert first.terminate() == 0
    # Leftovers are removed after all claims were looked at.
    host.spec("left-over").write_text("{}", encoding="utf-8")

    second = stage.started()
    eventually(lambda: not host.spec("left-over").exists())

    assert {path: identity(path) for path in files} == files
    assert before == prepared.expected()
    assert prepare(stage, prepared.claims) == before
    regions_now = {path: identity(path) for path in map(host.region, limited)}
    assert regions_now.items() <= files.items()
    assert host.holdings() == prepared.holdings
    assert second.metrics()["gpuslice_prepared_claims"] == {(): 3.0}


def test_a_reboot_is_repaired_without_a_call(stage: Scene) -> None:
    """After a reboot specs and regions come back by themselves, and the answers are the same."""
    host = stage.host
    first = stage.started()
    prepared = Prepared(stage)
    before = prepare(stage, prepared.claims)
    specs = prepared.specs(host)
    first.kill()
    host.reboot()
    assert host.holdings() == Holdings(
        prepared=prepared.holdings.prepared, regions=prepared.holdings.regions
    )

    second = stage.started()
    eventually(lambda: host.holdings() == prepared.holdings)

    assert prepared.specs(host) == specs
    assert [record["event"] for record in second.log()].count("claim restored") == 3
    assert prepare(stage, prepared.claims) == before
    assert {claim.boot_id for claim in host.claims().values()} == {"boot-1"}


def test_a_wiped_cdi_directory_is_filled_again(stage: Scene) -> None:
    """Specs that somebody removes, and the directory with them, are back a moment later."""
    stage.started("--restore-interval-s", "0.05")
    prepared = Prepared(stage)
    prepare(stage, prepared.claims)
    specs = prepared.specs(stage.host)

    shutil.rmtree(stage.host.cdi)

    eventually(lambda: stage.host.holdings() == prepared.holdings)
    assert prepared.specs(stage.host) == specs


def test_a_changed_spec_is_put_right(stage: Scene) -> None:
    """A spec that somebody edits is what it has to be a moment later."""
    stage.started("--restore-interval-s", "0.05")
    prepared = Prepared(stage)
    prepare(stage, prepared.claims)
    specs = prepared.specs(stage.host)

    stage.host.spec(prepared.claims[0].uid).write_text("{}", encoding="utf-8")

    eventually(lambda: prepared.specs(stage.host) == specs)
