"""The dashboard can be imported anywhere, and nothing on it hides anything else."""

import json
from itertools import combinations
from typing import Any, Final

from tests.cluster.cluster import REPOSITORY

_TEXT: Final = (REPOSITORY / "charts" / "gpuslice" / "files" / "dashboard.json").read_text()
_COLUMNS: Final = 24


def dashboard() -> dict[str, Any]:
    """Return it."""
    return dict(json.loads(_TEXT))


def panels() -> list[dict[str, Any]]:
    """Return its panels, rows among them."""
    return list(dashboard()["panels"])


def test_it_belongs_to_no_instance() -> None:
    """Whoever imports it chooses the Prometheus; Grafana gives it its number."""
    found = dashboard()
    variables = {each["name"]: each for each in found["templating"]["list"]}
    assert found["id"] is None
    assert variables["datasource"]["type"] == "datasource"
    assert "__inputs" not in found
    assert all(each["current"] == {} for each in variables.values())
    holders = [*panels(), *(variables[name] for name in ("node", "namespace"))]
    holders += [target for panel in panels() for target in panel.get("targets", ())]
    uids = {each["datasource"]["uid"] for each in holders if each.get("type") != "row"}
    assert uids == {"${datasource}"}


def test_panels_have_numbers_of_their_own_and_titles() -> None:
    """Links name panels by number, people by title."""
    numbers = [panel["id"] for panel in panels()]
    assert len(set(numbers)) == len(numbers)
    titles = [panel["title"] for panel in panels()]
    assert all(titles)
    assert len(set(titles)) == len(titles)


def test_no_panel_lies_over_another() -> None:
    """Grafana moves them apart by itself, and then nothing is where it was."""
    places = [panel["gridPos"] for panel in panels()]
    for place in places:
        assert place["x"] + place["w"] <= _COLUMNS
    for one, other in combinations(places, 2):
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        above = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert beside or above, (one, other)


def test_the_first_row_is_about_pods_that_wait() -> None:
    """It is why people look at all."""
    first, *others = panels()
    assert (first["type"], first["title"]) == ("row", "Why is a pod pending?")
    row = []
    for panel in others:
        if panel["type"] == "row":
            break
        row.append(json.dumps(panel))
    text = "".join(row)
    for name in (
        "gpuslice_waiting_pods",
        "gpuslice_webhook_refusals_total",
        "gpuslice_prepare_total",
        "hami_scheduler_allocation_failures_total",
        "gpuslice_card_memory_mib",
        "gpuslice_card_cores_percent",
        "gpuslice_card_containers_max",
    ):
        assert name in text


def test_every_query_has_a_name_of_its_own_in_its_panel() -> None:
    """Transformations and overrides name columns by it."""
    for panel in panels():
        names = [target["refId"] for target in panel.get("targets", ())]
        assert len(set(names)) == len(names), panel["title"]
