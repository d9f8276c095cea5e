"""The chart as plain manifests, for people without helm, for the demo and for the scenes.

`manifests/dra` is for clusters that keep shares and `manifests/hami` for older ones, each as the
chart renders with its own values. They are committed; a test holds them to the chart.
"""

import shutil
import tempfile
from pathlib import Path
from typing import Final

import yaml

from tests.charts.rendering import CHART, KUBE_SCHEDULER, NAMESPACE, RELEASE, merged, run
from tests.cluster.cluster import REPOSITORY

FOLDER: Final = REPOSITORY / "manifests"
KINDS: Final = {"dra": ("dra", "1.37.0"), "hami": ("hami", "1.33.0")}
"""The folder, and the mode and Kubernetes release that it is rendered for."""
_NO_CERTIFICATE: Final = {"scheduler": {"refit": {"enabled": False}}}
"""Each rendering would make another, with its key."""


def rendered(folder: str) -> dict[str, str]:
    """Return the text of each file of *folder* by its path."""
    mode, kubernetes = KINDS[folder]
    with tempfile.TemporaryDirectory() as place:
        values = Path(place) / "values.yaml"
        values.write_text(
            yaml.safe_dump(merged(KUBE_SCHEDULER, merged(_NO_CERTIFICATE, {"mode": mode})))
        )
        output = Path(place) / "output"
        run(
            4,
            *("template", RELEASE, str(CHART), "--namespace", NAMESPACE),
            *("--kube-version", kubernetes, "--values", str(values)),
            *("--output-dir", str(output)),
        )
        top = output / CHART.name / "templates"
        return {
            str(path.relative_to(top)): _tidy(path.read_text())
            for path in sorted(top.rglob("*.yaml"))
        }


def _tidy(text: str) -> str:
    """Return *text* without what helm adds for each template, and without a mark of helm."""
    lines = [
        line.rstrip()
        for line in text.splitlines()
        if not line.strip().startswith(("# Source: ", "helm.sh/chart: "))
        and line.strip() != "app.kubernetes.io/managed-by: Helm"
    ]
    while lines and lines[0] in {"---", ""}:
        lines.pop(0)
    return "\n".join(lines) + "\n"


def write() -> None:
    """Write all folders anew."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    for folder in KINDS:
        for name, text in rendered(folder).items():
            path = FOLDER / folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
