"""The chart's release on a real cluster: the real helm, and what runs afterwards."""

import contextlib
import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from kube import paths
from kube.client import Client
from kube.errors import ApiError, NotFoundError
from tests.charts.rendering import CHART, HELMS, NAMESPACE, RELEASE
from tests.charts.tools import program
from tests.cluster.cluster import REPOSITORY, RealCluster
from tests.cluster.scenes.driver import collection_of
from tests.cluster.scenes.report import ContainerReport, ReportError, read_report
from tests.patience import eventually

HELM_S: Final = 180.0
READY_S: Final = 120.0
CHART_IN_README: Final = "charts/gpuslice"

Object = dict[str, Any]


def readme_command() -> list[str]:
    """Return the words after `helm` of the README's command."""
    text = (REPOSITORY / "README.md").read_text().partition("## On a cluster")[2]
    command = re.search(r"^helm (install(?:.*\\\n)*.*)$", text, re.MULTILINE)
    assert command is not None, "the README does not say how to install"
    return shlex.split(command.group(1).replace("\\\n", " "))


@dataclass(slots=True, kw_only=True)
class Release:
    """Our release; *values* are those of every installation here."""

    cluster: RealCluster
    client: Client
    values: Mapping[str, Any]

    def install(self, chart: Path = CHART, *, helm: int = 4) -> str:
        """Install *chart* as the README does it and wait until all is ready."""
        return self.helm(*self._words("install", chart), helm=helm)

    def upgrade(self, chart: Path = CHART) -> str:
        """Upgrade to *chart* and wait."""
        return self.helm(*self._words("upgrade", chart))

    def rollback(self, revision: int) -> str:
        """Go back to *revision* and wait."""
        return self.helm("rollback", RELEASE, str(revision), "--wait", f"--timeout={HELM_S:.0f}s")

    def uninstall(self) -> None:
        """Uninstall and wait until its last pod has ended, without the rights it had."""
        self.helm("uninstall", RELEASE, "--wait", f"--timeout={HELM_S:.0f}s")
        path = paths.pods(NAMESPACE)
        eventually(lambda: not json.loads(self.client.get(path))["items"], READY_S)

    def revision(self) -> int:
        """Return the number of the present revision, 0 without a release."""
        listed = json.loads(self.helm("list", "--output=json"))
        return next((int(each["revision"]) for each in listed if each["name"] == RELEASE), 0)

    def helm(self, *words: str, helm: int = 4) -> str:
        """Run helm of that major in the cluster and return what it prints."""
        home = self.cluster.state_dir / "helm"
        within = () if "--namespace" in words else ("--namespace", NAMESPACE)
        return self.cluster.run_in(
            *(str(program(HELMS[helm])), *words, *within),
            timeout_s=HELM_S + 60,
            environment={"HOME": str(home)},
        ).stdout

    def _words(self, command: str, chart: Path) -> list[str]:
        """Return the README's words for `helm install`, with what is simulated as values."""
        file = self.cluster.state_dir / "values.json"
        file.write_text(json.dumps(self.values))
        words = readme_command()
        words[words.index("install")] = command
        words[words.index(CHART_IN_README)] = str(chart)
        if command != "install":
            words.remove("--create-namespace")
        return [*words, f"--values={file}", f"--timeout={HELM_S:.0f}s"]

    def pods(self, component: str) -> list[Object]:
        """Return the pods of a component that are not about to end."""
        selector = f"app.kubernetes.io/component={component}"
        found = json.loads(self.client.get(paths.pods(NAMESPACE), {"labelSelector": selector}))
        return [each for each in found["items"] if "deletionTimestamp" not in each["metadata"]]

    def restarts(self) -> dict[str, int]:
        """Return how often containers of our pods were started again."""
        found = json.loads(self.client.get(paths.pods(NAMESPACE)))["items"]
        return {
            f"{pod['metadata']['name']}/{each['name']}": each["restartCount"]
            for pod in found
            for each in pod["status"].get("containerStatuses", [])
        }

    def create(self, *objects: Object) -> None:
        """Create objects of users in `default`."""
        for each in objects:
            metadata = {"namespace": "default"} | each["metadata"]
            placed = each | {"metadata": metadata}
            if each["kind"] in {"DeviceClass", "Namespace"}:
                placed = each
            self.client.create(collection_of(placed), placed)

    def report(self, name: str) -> ContainerReport:
        """Return what the pod's container says it got, once it has said all."""

        def said() -> ContainerReport | None:
            with contextlib.suppress(ApiError, ReportError):
                return read_report(self.client.get(paths.pods("default", name, "log")).decode())
            return None

        try:
            return eventually(said, READY_S)  # type: ignore[return-value]
        except AssertionError as error:
            raise AssertionError(self.story(name)) from error

    def story(self, name: str) -> str:
        """Return what is known of a pod that does not run."""
        pod = self.pod(name)
        events = json.loads(self.client.get(paths.events("default")))["items"]
        told = [
            f"{each['reason']}: {each['message']}"
            for each in events
            if each["involvedObject"].get("name", "").startswith(name)
        ]
        return "\n".join([json.dumps(pod.get("spec")), json.dumps(pod.get("status")), *told])

    def pod(self, name: str) -> Object:
        """Return a user's pod as it is, empty if it is gone."""
        with contextlib.suppress(NotFoundError):
            return dict(json.loads(self.client.get(paths.pods("default", name))))
        return {}

    def delete_pods(self, *names: str) -> None:
        """Delete pods of users and wait until they are gone."""
        for name in names:
            with contextlib.suppress(NotFoundError):
                self.client.delete(paths.pods("default", name))
        for name in names:
            eventually(lambda name=name: not self.pod(name), READY_S)  # type: ignore[misc]
