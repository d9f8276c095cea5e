"""The dashboard's queries, evaluated by the real promtool over a cluster in which all happens."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.charts.test_alerts import ran
from tests.operations.promql import unknown_in
from tests.operations.test_queries import known, panels

_SCENE: Final = Path(__file__).parent / "dashboard-scene.yaml"
_VARIABLE: Final = re.compile(r"\$(?:node|namespace)\b")
_AT: Final = "10m"
Object = dict[str, Any]


def scene() -> dict[str, str]:
    """Return the series with their values."""
    return {series: str(values) for series, values in yaml.safe_load(_SCENE.read_text()).items()}


def put_in(expression: str) -> str:
    """Return *expression* as Grafana sends it with all nodes and namespaces chosen."""
    return _VARIABLE.sub(".*", expression.replace("$__rate_interval", "5m"))


def queries() -> dict[str, str]:
    """Return the queries by panel and letter."""
    return {
        f"{panel['title']} {target['refId']}": put_in(target["expr"])
        for panel in panels()
        for target in panel.get("targets", ())
    }


def query(title: str, letter: str = "A") -> str:
    """Return one of them."""
    return queries()[f"{title} {letter}"]


def evaluated(folder: Path, checks: list[Object], rules: list[Object]) -> None:
    """Have promtool evaluate *rules* over the scene, and compare *checks* after ten minutes."""
    (folder / "rules.yaml").write_text(
        yaml.safe_dump({"groups": [{"name": "queries", "rules": rules}]})
    )
    test = {
        "interval": "1m",
        "input_series": [{"series": s, "values": values} for s, values in scene().items()],
        "promql_expr_test": checks,
    }
    document = {"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": [test]}
    (folder / "tests.yaml").write_text(yaml.safe_dump(document))
    ran("test", "rules", str(folder / "tests.yaml"))


def test_the_scene_has_series_as_programs_export_them() -> None:
    """Or it would show nothing."""
    for series in scene():
        assert unknown_in(series, known()) == []


def _numbered() -> Iterator[tuple[str, str, str]]:
    for number, (name, expression) in enumerate(queries().items()):
        yield f"query:{number}", name, expression


def test_every_query_finds_something(tmp_path: Path) -> None:
    """None fails for labels that do not match, be there replicas or two kinds of nodes."""
    rules = [{"record": record, "expr": expression} for record, _, expression in _numbered()]
    checks = [
        {"expr": f"absent({record})", "eval_time": _AT, "exp_samples": []}
        for record, _, _ in _numbered()
    ]
    evaluated(tmp_path, checks, rules)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (query("Pods without a node"), {"{}": 2}),
        (query("Waiting for"), {"{}": 540}),
        (query("GPUs out of play"), {"{}": 1}),
        (query("Nodes refused"), {"{}": 1}),
        (query("Agents in trouble"), {"{}": 2}),
        (
            query("What is free, by GPU"),
            {
                '{node="n1",uuid="GPU-1"}': 8000,
                '{node="n1",uuid="GPU-2"}': 16000,
                '{node="n2",uuid="GPU-3"}': 6000,
            },
        ),
        (
            query("What is free, by GPU", "B"),
            {
                '{node="n1",uuid="GPU-1"}': 70,
                '{node="n1",uuid="GPU-2"}': 100,
                '{node="n2",uuid="GPU-3"}': 50,
            },
        ),
        (
            query("What is free, by GPU", "C"),
            {
                '{node="n1",uuid="GPU-1"}': 8,
                '{node="n1",uuid="GPU-2"}': 10,
                '{node="n2",uuid="GPU-3"}': 9,
            },
        ),
        (query("Memory: free and asked for"), {"{}": 30000}),
        (query("Memory: free and asked for", "B"), {"{}": 16000}),
        (query("Memory: free and asked for", "C"), {"{}": 40000}),
        (
            query("Memory granted"),
            {'{node="n1",uuid="GPU-1"}': 0.5, '{node="n2",uuid="GPU-3"}': 0.25},
        ),
        (query("Use of cores against grants"), {'{node="n1",uuid="GPU-1"}': 10}),
        (query("Memory given, by node"), {'{node="n2"}': 0.125}),
        (query("The webhook's certificate expires in"), {"{}": 8999400}),
    ],
)
def test_figures_are_right(tmp_path: Path, expression: str, expected: dict[str, float]) -> None:
    """What is free is what is offered less what is granted, on nodes of both kinds, if healthy."""
    samples = [{"labels": labels, "value": value} for labels, value in expected.items()]
    check = {"expr": expression, "eval_time": _AT, "exp_samples": samples}
    evaluated(tmp_path, [check], [{"record": "nothing", "expr": "vector(0)"}])
