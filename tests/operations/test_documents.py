"""docs/operations.md says what there is: metrics, alerts with their chapters, events of the log."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.cluster.cluster import REPOSITORY
from tests.operations.exported import PROGRAMS
from tests.operations.tables import DOCUMENT, table, tables_in
from tests.operations.test_queries import alerts, known

_TEXT: Final = DOCUMENT.read_text(encoding="utf-8")
_HEADING: Final = re.compile(r"^#+ (.+)$", re.MULTILINE)
_LINK: Final = re.compile(r"\]\(([^)#]*)(#[^)]*)?\)")
_METRIC: Final = re.compile(r"\b(?:gpuslice|hami)_[a-z0-9_]+[a-z0-9]\b")
_TICKED: Final = re.compile(r"`([^`]+)`")
_PACKAGES: Final = ("cdi", "cli", "dra", "extender", "gpu", "hami", "kube", "webhook")


def anchors(text: str) -> set[str]:
    """Return the anchors that headings become."""
    kept = (re.sub(r"[^\w\- ]", "", each.lower()) for each in _HEADING.findall(text))
    return {each.replace(" ", "-") for each in kept}


def section(title: str) -> str:
    """Return what stands below the heading *title*, up to the next heading."""
    _, _, rest = _TEXT.partition(f"\n## {title}\n")
    assert rest, title
    return rest.partition("\n#")[0]


def test_tables_of_metrics_are_what_programs_export() -> None:
    """`python -m tests.operations.tables` writes them anew."""
    assert tables_in(_TEXT) == {program: table(program) for program in PROGRAMS}


def test_every_alert_has_its_chapter() -> None:
    """The runbook of an alert leads there, and nowhere is a chapter without an alert."""
    found = alerts()
    for each in found:
        assert each["annotations"]["runbook"] == f"docs/operations.md#{each['alert'].lower()}"
        assert each["labels"]["severity"] in {"critical", "warning", "info"}
        assert {"summary", "description"} <= each["annotations"].keys()
    chapters = [name for name in _HEADING.findall(_TEXT) if name.startswith("Gpuslice")]
    assert chapters == [each["alert"] for each in found]


@pytest.mark.parametrize("document", ["operations.md", "versions.md", "choosing.md"])
def test_links_lead_somewhere(document: str) -> None:
    """Files and headings, also of other documents."""
    here = DOCUMENT.parent / document
    for name, anchor in _LINK.findall(here.read_text(encoding="utf-8")):
        path = here.parent / name if name else here
        assert path.exists(), name
        if anchor:
            assert anchor[1:] in anchors(path.read_text(encoding="utf-8")), (name, anchor)


def test_metrics_in_sentences_exist() -> None:
    """Whoever copies a query gets an answer."""
    families = {each.name for metrics in PROGRAMS.values() for each in metrics()}
    named = {name for name in _METRIC.findall(_TEXT) if not name.startswith("gpuslice_system")}
    assert sorted(named - families - known().keys()) == []


def _events() -> Iterator[str]:
    for line in section("Logs").splitlines():
        cells = line.split(" | ")
        if line.startswith("|") and len(cells) > 1 and not line.startswith(("|---", "| program")):
            yield from _TICKED.findall(cells[1])


def test_events_of_the_log_exist() -> None:
    """Each is written somewhere in the programs, letter by letter."""
    sources = "\n".join(
        path.read_text(encoding="utf-8")
        for package in _PACKAGES
        for path in sorted(Path(REPOSITORY / package).rglob("*.py"))
    )
    events = list(_events())
    assert len(events) > 40
    assert [event for event in events if f'"{event}"' not in sources] == []
