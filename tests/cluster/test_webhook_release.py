"""What becomes of the authorities in the webhook configurations when helm changes a release.

The chart renders no `caBundle`; the program writes it. If an upgrade or a rollback took it away,
all pods with GPUs would be refused until a replica has seen that. The API server has nothing around
it: the place of the program is taken by the part of it that writes.
"""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kube import paths
from kube.cabundle import PLURALS, BundleWriter, configuration_path
from kube.certificates import make_authority, utc_now
from kube.client import Client
from kube.errors import ConflictError, NotFoundError
from tests.charts.rendering import CHART, HELMS, KUBE_SCHEDULER, NAMESPACE, RELEASE, merged
from tests.charts.tools import check, program
from tests.charts.webhooks import PODS, is_asked
from tests.cluster.cluster import RealCluster
from tests.cluster.components import Options
from tests.cluster.conftest import minor_of
from tests.cluster.errors import MissingError
from tests.cluster.up import bring_up_api_server

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

VALUES = merged(KUBE_SCHEDULER, {"mode": "dra"})


@pytest.fixture(scope="module")
def running(request: pytest.FixtureRequest, session_folder: Path) -> Iterator[RealCluster]:
    """Return a cluster of an API server alone, where helm was built."""
    try:
        check()
    except MissingError as error:
        if request.config.getoption("--require-charts"):
            raise
        pytest.skip(str(error))
    options = Options(minor=minor_of(request.config), authorization="RBAC")
    with bring_up_api_server(session_folder / "release", options) as cluster:
        yield cluster


class Helm:
    """One major of helm, and our release."""

    def __init__(self, cluster: RealCluster, major: int, folder: Path) -> None:
        self._cluster, self._major, self._folder = cluster, major, folder

    def __call__(self, *words: str) -> None:
        """Run it."""
        self._cluster.run_in(
            str(program(HELMS[self._major])),
            *words,
            f"--namespace={NAMESPACE}",
            timeout_s=120,
            environment={"HOME": str(self._folder)},
        )

    def apply(self, verb: str, *words: str, **webhook: Any) -> None:
        """Install or upgrade with values of the webhook."""
        file = self._folder / "values.json"
        file.write_text(json.dumps(merged(VALUES, {"webhook": webhook})))
        self(verb, RELEASE, str(CHART), f"--values={file}", *words)


def hooks(client: Client) -> list[dict[str, Any]]:
    """Return all webhooks of the release."""
    found: list[dict[str, Any]] = []
    for plural in PLURALS:
        found += json.loads(client.get(configuration_path(plural, RELEASE)))["webhooks"]
    return found


def state(client: Client) -> tuple[set[str | None], set[int]]:
    """Return the authorities and the times to wait of all webhooks."""
    both = [
        (each["clientConfig"].get("caBundle"), each["timeoutSeconds"]) for each in hooks(client)
    ]
    return {bundle for bundle, _ in both}, {timeout_s for _, timeout_s in both}


@pytest.mark.parametrize("major", sorted(HELMS))
def test_upgrade_and_rollback_keep_what_the_program_wrote(
    running: RealCluster, major: int, tmp_path: Path
) -> None:
    """Of each release, also when the authorities were renewed since; other fields are changed."""
    helm = Helm(running, major, tmp_path)
    with running.client() as client:
        writer = BundleWriter(
            client, (RELEASE,), namespace=NAMESPACE, service_name="gpuslice-webhook"
        )

        def renew() -> str:
            """Write a new authority as the program does; return it as it stands."""
            writer.write(make_authority("gate", utc_now()).certificate_pem)
            assert writer.problem() is None
            ((bundle,), _) = state(client)
            assert bundle
            return bundle

        helm.apply("install", "--create-namespace")
        assert state(client) == ({None}, {5})
        first = renew()
        helm.apply("upgrade", timeoutSeconds=6)
        assert state(client) == ({first}, {6})
        second = renew()
        helm.apply("upgrade", timeoutSeconds=7)
        assert state(client) == ({second}, {7})
        helm("rollback", RELEASE, "1")
        assert state(client) == ({second}, {5})
        helm("uninstall", RELEASE)
        for plural in PLURALS:
            with pytest.raises(NotFoundError):
                client.get(configuration_path(plural, RELEASE))


def test_a_device_config_in_the_cluster_is_read(running: RealCluster, tmp_path: Path) -> None:
    """Pods with the resources that it names wait for the webhook, and others do not."""
    helm = Helm(running, 4, tmp_path)
    text = "nvidia:\n  resourceCountName: example.com/card\n"
    with running.client() as client:
        with contextlib.suppress(ConflictError):
            client.create(paths.namespaces(), {"metadata": {"name": NAMESPACE}})
        client.create(
            paths.resource("v1", "configmaps", namespace=NAMESPACE),
            {"metadata": {"name": "mine"}, "data": {"device-config.yaml": text}},
        )
        config = {"deviceConfig": {"existingConfigMap": "mine"}}
        file = tmp_path / "config.json"
        file.write_text(json.dumps(config))
        helm.apply("install", f"--values={file}")
        try:
            found = {each["name"]: each for each in hooks(client)}
        finally:
            helm("uninstall", RELEASE)
    for key, asked in (("example.com/card", True), ("nvidia.com/gpu", False)):
        spec = {"containers": [{"resources": {"limits": {key: "1"}}}]}
        assert is_asked(found[PODS], {"metadata": {}, "spec": spec}) is asked
