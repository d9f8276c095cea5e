"""The alerts, judged by the real promtool."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.charts.alertcases import alerts, cases, promtool, series_in, trials_of
from tests.cluster.cluster import REPOSITORY
from tests.operations.promql import unknown_in
from tests.operations.test_queries import known, panels

FILE: Final = REPOSITORY / "charts" / "gpuslice" / "files" / "alerts.yaml"
_YAML: Final = re.compile(r"^```yaml\n(scrape_configs:.*?)^```", re.MULTILINE | re.DOTALL)
_VARIABLE: Final = re.compile(r"\$(node|namespace)\b")


def ran(*arguments: str) -> str:
    """Run promtool; return what it says, and fail if it does."""
    result = subprocess.run(  # noqa: S603 - promtool
        [promtool(), *arguments], check=False, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def test_the_file_can_be_loaded_by_a_prometheus_without_the_operator() -> None:
    """The real promtool finds no fault, be it in an expression or in a template."""
    assert f"SUCCESS: {len(alerts(FILE))} rules found" in ran("check", "rules", str(FILE))


def test_every_alert_has_its_cases() -> None:
    """One in which it fires, and one in which it does not."""
    found = cases()
    assert found.keys() == alerts(FILE).keys()
    assert all(case["quiet"] for case in found.values())


def test_cases_have_series_as_programs_export_them() -> None:
    """A case on a metric that does not exist would show nothing."""
    for name, case in cases().items():
        for series in series_in(case):
            assert unknown_in(series, known()) == [], name


def test_alerts_fire_when_they_should(tmp_path: Path) -> None:
    """With the labels, the severity and the sentences that they are to have, and not otherwise."""
    rules = alerts(FILE)
    tests = [test for name, case in cases().items() for test in trials_of(name, case, rules[name])]
    path = tmp_path / "tests.yaml"
    document = {"rule_files": [str(FILE)], "evaluation_interval": "1m", "tests": tests}
    path.write_text(yaml.safe_dump(document, width=1000))
    ran("test", "rules", str(path))


def test_a_wrong_expectation_is_found(tmp_path: Path) -> None:
    """The real promtool does compare what an alert says."""
    name = "GpusliceAgentDown"
    rule = alerts(FILE)[name]
    wrong: dict[str, Any] = json.loads(json.dumps(rule))
    wrong["annotations"]["summary"] = "All is well."
    path = tmp_path / "tests.yaml"
    tests = list(trials_of(name, cases()[name], wrong))
    path.write_text(yaml.safe_dump({"rule_files": [str(FILE)], "tests": tests}))
    with pytest.raises(AssertionError, match="All is well"):
        ran("test", "rules", str(path))


def test_queries_of_the_dashboard_can_be_read(tmp_path: Path) -> None:
    """As rules, since promtool checks these; Grafana's variables are put in."""
    expressions = [
        _VARIABLE.sub("n1", target["expr"].replace("$__rate_interval", "5m"))
        for panel in panels()
        for target in panel.get("targets", ())
    ]
    rules = [
        {"record": f"query:{number}", "expr": expression}
        for number, expression in enumerate(expressions)
    ]
    path = tmp_path / "queries.yaml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": rules}]}))
    assert f"SUCCESS: {len(expressions)} rules found" in ran("check", "rules", str(path))


def configured(folder: Path, config: dict[str, Any]) -> None:
    """Have promtool judge a configuration of Prometheus, with the file of alerts beside it.

    Debian's knows nothing of Kubernetes, so pods are not looked for.
    """
    shutil.copy(FILE, folder)
    for job in config["scrape_configs"]:
        del job["kubernetes_sd_configs"]
        job["static_configs"] = [{"targets": ["pod.example.com:9080"]}]
    (folder / "prometheus.yaml").write_text(yaml.safe_dump(config))
    assert "SUCCESS" in ran("check", "config", str(folder / "prometheus.yaml"))


def test_the_documents_scrape_configuration_is_one(tmp_path: Path) -> None:
    """Whoever has no operator pastes it."""
    text = (REPOSITORY / "docs" / "operations.md").read_text(encoding="utf-8")
    (found,) = _YAML.findall(text)
    configured(tmp_path, yaml.safe_load(found))
