"""Real kube-schedulers read the configuration that the chart renders as it is meant."""

import subprocess
from pathlib import Path
from typing import Final

import pytest
import yaml

from hami.vendor_rules import chart as hami_chart
from tests.charts import schedulers
from tests.charts.rendering import Object, merged, nested, render
from tests.charts.schedulers import ALONE, HAMI
from tests.cluster.assets import find
from tests.cluster.errors import MissingError
from tests.cluster.go_modules import minors

_TIMEOUT_S: Final = 60
_NOBODY: Final = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "here",
    "contexts": [{"name": "here", "context": {"cluster": "here", "user": "nobody"}}],
    "clusters": [{"name": "here", "cluster": {"server": "http://127.0.0.1:1"}}],
    "users": [{"name": "nobody", "user": {}}],
}
"""A cluster in which nobody answers: nothing is asked before the configuration is read."""


def _read(program: str, configuration: Object, folder: Path) -> Object:
    """Return what kube-scheduler makes of *configuration*."""
    access, given, made = (folder / name for name in ("access.yaml", "given.yaml", "made.yaml"))
    access.write_text(yaml.safe_dump(_NOBODY))
    given.write_text(
        yaml.safe_dump(configuration | {"clientConnection": {"kubeconfig": str(access)}})
    )
    ended = subprocess.run(  # noqa: S603 - a program that was built here
        [
            *(program, f"--config={given}", f"--write-config-to={made}", "--secure-port=0"),
            *(f"--authentication-kubeconfig={access}", f"--authorization-kubeconfig={access}"),
            "--authentication-skip-lookup",
        ],
        check=False,
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
    )
    assert made.is_file(), ended.stderr
    read = yaml.safe_load(made.read_text())
    assert isinstance(read, dict)
    return read


@pytest.mark.parametrize("minor", minors())
def test_the_configuration_is_read_by_each_release(minor: str, tmp_path: Path) -> None:
    """With the names of all vendors, beside the extender and elsewhere."""
    try:
        program = find(minor).path("kube-scheduler")
    except MissingError as error:
        pytest.skip(str(error))
    vendors = {"deviceConfig": {"sections": dict(hami_chart.SECTIONS)}}
    for values in (merged(HAMI, vendors), ALONE):
        quick = merged(values, nested("scheduler.refit.enabled", False))
        said = schedulers.configuration(render(quick, kubernetes=f"{minor}.0"))
        read = _read(program, said, tmp_path)
        (asked,), (extender,) = said["extenders"], read["extenders"]
        for key in ("urlPrefix", "filterVerb", "bindVerb", "nodeCacheCapable", "httpTimeout"):
            assert extender[key] == asked[key]
        ignored = {
            each["name"]: each.get("ignoredByScheduler", False)
            for each in extender["managedResources"]
        }
        assert ignored == {
            each["name"]: each["ignoredByScheduler"] for each in asked["managedResources"]
        }
        assert read["leaderElection"].items() >= said["leaderElection"].items()
        assert read["profiles"][0]["schedulerName"] == "hami-scheduler"
