"""Tests of the metrics of what a node offers, read as Prometheus reads them."""

from pathlib import Path

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from hami.plugin.figures import OfferCollector
from tests.hami.plugin.test_current import Scene, ready

LABELS = ("uuid", "managed", "hash", "entry")
Figures = dict[tuple[str, ...], float]


def figures(scene: Scene, problem: str | None = None) -> Figures:
    """Return every sample by its name and the values of its labels, in their order above."""
    registry = CollectorRegistry()
    registry.register(OfferCollector(scene.current, lambda: problem))
    families = text_string_to_metric_families(generate_latest(registry).decode())
    return {
        (
            sample.name.removeprefix("gpuslice_"),
            *(sample.labels[name] for name in LABELS if name in sample.labels),
        ): sample.value
        for family in families
        for sample in family.samples
    }


def test_cards(tmp_path: Path) -> None:
    """Each offered card has its amounts; a filtered one is there and not managed."""
    scene = ready(tmp_path)
    one, other = (gpu.uuid for gpu in scene.inventory.gpus)
    scene.write(filterdevices={"uuid": [other]}, devicememoryscaling=2, devicesplitcount=4)
    found = figures(scene)
    of_one = {key[0]: value for key, value in found.items() if one in key}
    assert of_one == {
        "card_info": 1,
        "card_healthy": 1,
        "card_memory_mib": 30720,
        "card_cores_percent": 100,
        "card_containers_max": 4,
    }
    assert found["card_info", one, "true"] == 1
    assert [key for key in found if other in key] == [("card_info", other, "false")]


def test_configuration(tmp_path: Path) -> None:
    """The hash and the entry in force are there, also while the file has mistakes."""
    scene = ready(tmp_path)
    scene.write(devicesplitcount=4)
    config = scene.current.config()
    assert config is not None
    in_force = ("node_config_info", config.hash, "inline nodeconfig[0] (name *)")
    found = figures(scene)
    assert found[in_force] == 1
    assert found["node_config_findings",] == 0
    scene.write(devicesplitcount=0, migstrategy="x")
    found = figures(scene)
    assert found[in_force] == 1
    assert found["node_config_findings",] == 2


def test_what_is_not_known_has_no_value(tmp_path: Path) -> None:
    """Before anything is known no card and no configuration is told of."""
    found = figures(Scene(tmp_path), "not yet")
    assert found == {("node_announced",): 0, ("node_config_findings",): 0}
    assert figures(ready(tmp_path))["node_announced",] == 1
