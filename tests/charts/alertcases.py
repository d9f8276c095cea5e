"""Unit tests of the alerts in a short form, and what promtool is given of them.

promtool compares all labels and annotations of an alert, so what an alert says is made here from
its templates, by the labels and values that a case expects: it is right only if Prometheus makes
the same of them.
"""

import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from tests.cluster.errors import MissingError

Object = dict[str, Any]
CASES: Final = Path(__file__).parent / "alerts"
_TEMPLATE: Final = re.compile(r"\{\{\s*([^}]*?)\s*\}\}")
_LABEL: Final = "$labels."


def promtool() -> str:
    """Return the program; MissingError says how to get it."""
    found = shutil.which("promtool")
    if found is None:
        message = "promtool is not here: Debian's package prometheus has it"
        raise MissingError(message)
    return found


def groups(path: Path) -> list[Object]:
    """Return the groups of a file of rules."""
    return list(yaml.safe_load(path.read_text())["groups"])


def alerts(path: Path) -> dict[str, Object]:
    """Return the alerts of a file of rules by name."""
    return {rule["alert"]: rule for group in groups(path) for rule in group["rules"]}


def cases() -> dict[str, Object]:
    """Return all cases by alert."""
    found: dict[str, Object] = {}
    for path in sorted(CASES.glob("*.yaml")):
        for name, case in yaml.safe_load(path.read_text()).items():
            assert name not in found, name
            found[name] = case
    return found


def series_in(case: Object) -> Iterator[str]:
    """Yield the series that a case gives."""
    for each in (case["fires"], *case.get("also", ()), *case["quiet"]):
        yield from each["series"]


def trials_of(name: str, case: Object, rule: Object) -> Iterator[Object]:
    """Yield what promtool is to try."""
    for each in (case["fires"], *case.get("also", ())):
        yield _test(name, each, [_expected(each, rule)])
    for each in case["quiet"]:
        yield _test(name, each, [])


def _test(name: str, each: Object, expected: list[Object]) -> Object:
    return {
        "name": name,
        "interval": "1m",
        "input_series": [
            {"series": series, "values": str(values)} for series, values in each["series"].items()
        ],
        "alert_rule_test": [{"eval_time": each["at"], "alertname": name, "exp_alerts": expected}],
    }


def _expected(each: Object, rule: Object) -> Object:
    labels = {name: str(value) for name, value in each["labels"].items()}
    said = {name: str(value) for name, value in each.get("said", {}).items()}
    return {
        "exp_labels": labels | rule["labels"],
        "exp_annotations": {
            key: _rendered(text, labels, said) for key, text in rule["annotations"].items()
        },
    }


def _rendered(text: str, labels: Mapping[str, str], said: Mapping[str, str]) -> str:
    def put(match: re.Match[str]) -> str:
        inside = match.group(1)
        if inside.startswith(_LABEL):
            return labels.get(inside.removeprefix(_LABEL), "")
        return said[inside]

    return _TEMPLATE.sub(put, text)
