"""Alerts and dashboard ask for nothing that no program exports."""

import json
import re
from collections.abc import Iterator
from typing import Any, Final

import pytest
import yaml

from tests.cluster.cluster import REPOSITORY
from tests.operations.exported import series
from tests.operations.promql import OUTSIDE, TARGET, names_in, unknown_in, unknown_words

_VARIABLE: Final = re.compile(r"label_values\((\w+), (\w+)\)", re.ASCII)
_FILES: Final = REPOSITORY / "charts" / "gpuslice" / "files"


def known() -> dict[str, frozenset[str]]:
    """Return what queries may ask for."""
    return {**series(), **OUTSIDE}


def alerts() -> list[dict[str, Any]]:
    """Return the alerting rules."""
    groups = yaml.safe_load((_FILES / "alerts.yaml").read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def panels() -> list[dict[str, Any]]:
    """Return the dashboard's panels."""
    return list(json.loads((_FILES / "dashboard.json").read_text())["panels"])


def queries() -> Iterator[tuple[str, str, str]]:
    """Yield title, expression and legend of all queries of the dashboard."""
    for panel in panels():
        for target in panel.get("targets", ()):
            yield panel["title"], target["expr"], target["legendFormat"]


@pytest.mark.parametrize("rule", alerts(), ids=lambda rule: rule["alert"])
def test_alerts_name_what_there_is(rule: dict[str, Any]) -> None:
    """Metrics, labels, and what the sentences show of the result."""
    assert unknown_in(rule["expr"], known()) == []
    said = " ".join(rule["annotations"].values())
    assert unknown_words(said, rule["expr"], known()) == []


def test_the_dashboard_names_what_there_is() -> None:
    """The same for each query and its legend."""
    for title, expression, legend in queries():
        assert unknown_in(expression, known()) == [], title
        assert unknown_words(legend, expression, known()) == [], title


def test_the_dashboards_variables_are_labels_that_there_are() -> None:
    """Or a list to choose from would be empty."""
    variables = json.loads((_FILES / "dashboard.json").read_text())["templating"]["list"]
    asked = [each["definition"] for each in variables if each["type"] == "query"]
    assert len(asked) == 2
    for each in asked:
        ((metric, label),) = _VARIABLE.findall(each)
        assert label in known()[metric] | TARGET


@pytest.mark.parametrize(
    ("expression", "unknown"),
    [
        ("gpuslice_prepare_totals", ["gpuslice_prepare_totals"]),
        ('rate(gpuslice_prepare_total{outcom="ok"}[5m])', ["gpuslice_prepare_total{outcom}"]),
        ("sum by (nod, outcome) (gpuslice_prepare_total)", ["nod"]),
        ('up{job="x"} == 0 and on (uuid) gpuslice_card_healthy', []),
        ("gpuslice_prepare_seconds", ["gpuslice_prepare_seconds"]),
        ("gpuslice_prepare", ["gpuslice_prepare"]),
    ],
)
def test_what_is_unknown_is_found(expression: str, unknown: list[str]) -> None:
    """Or the tests above would show nothing."""
    assert unknown_in(expression, known()) == unknown


def test_sentences_are_held_to_what_is_left() -> None:
    """What was summed up has no other labels than those by which it was."""
    expression = "sum by (node) (gpuslice_prepare_total)"
    assert names_in(expression).kept == frozenset({"node"})
    said = "{{ $labels.node }} {{ $labels.outcome }} {{ $value | humanize }}"
    assert unknown_words(said, expression, known()) == ["outcome"]
