"""What is removed of a device plugin's time when a node serves claims."""

from pathlib import Path

from cdi.cardspec import CardSpecStore
from cdi.regionstore import RegionStore
from cli.nodeagent.leftbehind import clear_cards
from cli.nodeagent.settings import NodeAgentSettings
from gpu import names
from hami.plugin.containers import ContainerRecord, ContainerStore


def settings_in(root: Path) -> NodeAgentSettings:
    """Return settings of an agent whose directories are below *root*."""
    words = ["--node-name", "node-a", "--kubelet-root", str(root), "--cdi-directory", str(root)]
    return NodeAgentSettings.from_arguments(words, program="test")


def test_spec_and_regions_go(tmp_path: Path) -> None:
    """Names of GPUs, records and regions; other specs stay."""
    directory = tmp_path / "plugins" / names.DRIVER
    (directory / "containers").mkdir(parents=True)
    (directory / "regions").mkdir()
    regions = RegionStore(directory / "regions", str(directory / "regions"), may_mount=False)
    record = ContainerRecord(
        pod_uid="0a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f",
        namespace="team",
        pod="trainer",
        container="main",
        library_sha256="a" * 64,
        region_size=2008953,
        with_lock=False,
    )
    ContainerStore(directory / "containers", regions).keep(record)
    spec = CardSpecStore(tmp_path).path
    other = tmp_path / "nvidia.json"
    for each in (spec, other):
        each.write_text("{}")
    clear_cards(settings_in(tmp_path))
    assert other.exists()
    assert not spec.exists()
    assert not regions.owners()
    assert not list((directory / "containers").iterdir())


def test_nothing_is_made(tmp_path: Path) -> None:
    """A node that never served a device plugin is left as it is."""
    clear_cards(settings_in(tmp_path))
    assert not list(tmp_path.iterdir())
