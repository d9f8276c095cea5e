"""One scene's objects on the cluster: made, watched until they are settled, and cleared away."""

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpu import names
from kube import paths
from kube.client import Client
from kube.errors import ApiError, NotFoundError
from kube.quantity import parse
from tests.cluster.cdi_library import judge
from tests.cluster.scenes.driver import Driver, collection_of, devices_of
from tests.cluster.scenes.leftovers import errors_in, expect_nothing_left
from tests.cluster.scenes.manifests import Object
from tests.cluster.scenes.report import ContainerReport, ReportError, read_report
from tests.patience import eventually

MIB = 2**20
TEST_DOMAIN = ".gpuslice.test"
"""Device classes of scenes end so."""
_NAMESPACE = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """A device that the scheduler gave to a request, with what the node publishes of it."""

    request: str
    node: str
    product: str
    uuid: str
    pci_bus_id: str
    memory_mib: int | None
    """`None` where all of it is given and nothing is consumed."""
    cores_percent: int


class Stage:
    """A namespace's objects; the tests run one after the other, so all scenes use one."""

    def __init__(self, client: Client, driver: Driver) -> None:
        self.client = client
        self.driver = driver
        self.node = driver.cluster.node_names[0]

    def create(self, *objects: Object) -> None:
        """Create *objects* in their order."""
        for each in objects:
            self.client.create(collection_of(placed(each)), placed(each))

    def delete(self, kind: str, name: str) -> None:
        """Delete a pod or claim and wait until it is gone."""
        path = {"Pod": paths.pods, "ResourceClaim": paths.resource_claims}[kind](_NAMESPACE, name)
        self.client.delete(path)
        eventually(lambda: self._gone(path))

    def force_delete(self, name: str) -> None:
        """Delete the pod at once, whatever its node still does for it."""
        self._remove(paths.pods(_NAMESPACE, name), now=True)

    def pod(self, name: str) -> Object:
        """Return the pod as the API server has it."""
        return dict(json.loads(self.client.get(paths.pods(_NAMESPACE, name))))

    def run(self, *objects: Object) -> dict[str, ContainerReport]:
        """Create *objects* and return what the first container of each pod says it got.

        A pod is created when the one before it has a node: of ten at once, kube-scheduler 1.37.2
        was seen to leave one without, although there was room, until something else woke it.
        """
        pods = [each for each in objects if each["kind"] == "Pod"]
        self.create(*(each for each in objects if each["kind"] != "Pod"))
        for pod in pods:
            self.create(pod)
            self.scheduled(pod["metadata"]["name"])
        return {name: self.report(name) for name in (str(pod["metadata"]["name"]) for pod in pods)}

    def report(self, name: str, container: str | None = None) -> ContainerReport:
        """Return what a container says it got, once it has said all."""
        wanted = container or str(self.pod(name)["spec"]["containers"][0]["name"])

        def said() -> ContainerReport | None:
            with contextlib.suppress(ApiError, ReportError):
                path = paths.pods(_NAMESPACE, name, "log")
                return read_report(self.client.get(path, {"container": wanted}).decode())
            return None

        found: ContainerReport = self._told(name, said)
        self._judge_specs()
        return found

    def log(self, name: str) -> str:
        """Return what the pod's only container has said, once it has said something."""

        def said() -> str:
            with contextlib.suppress(ApiError):
                return self.client.get(paths.pods(_NAMESPACE, name, "log")).decode()
            return ""

        return str(self._told(name, said))

    def pending(self, name: str) -> str:
        """Wait until the scheduler has said why the pod does not run, and return that."""
        return str(self._told(name, lambda: why_pending(self.pod(name))))

    def scheduled(self, name: str) -> str:
        """Wait until the pod is bound and return its node."""
        return str(self._told(name, lambda: self.pod(name)["spec"].get("nodeName")))

    def claims_of(self, name: str) -> dict[str, str]:
        """Return the names of the pod's claims by their names in the pod."""
        pod = self.pod(name)
        statuses = pod.get("status", {}).get("resourceClaimStatuses", [])
        made = {each["name"]: each["resourceClaimName"] for each in statuses}
        return {
            each["name"]: each.get("resourceClaimName") or made[each["name"]]
            for each in pod["spec"]["resourceClaims"]
        }

    def given(self, name: str) -> list[Given]:
        """Return what the pod's claims were given, in order of PCI bus id."""
        found = []
        for claim in self.claims_of(name).values():
            raw = json.loads(self.client.get(paths.resource_claims(_NAMESPACE, claim)))
            results = raw["status"]["allocation"]["devices"]["results"]
            found += [self._given(each) for each in results]
        return sorted(found, key=lambda each: each.pci_bus_id)

    def events(self, name: str, reason: str) -> list[str]:
        """Return the messages of the events with *reason* about an object called *name*."""
        items = json.loads(self.client.get(paths.events(_NAMESPACE)))["items"]
        return [
            str(each["message"])
            for each in items
            # Controllers write some about objects that have no name.
            if each["involvedObject"].get("name") == name and each["reason"] == reason
        ]

    def _clear_classes(self) -> None:
        for each in json.loads(self.client.get(paths.device_classes()))["items"]:
            name = str(each["metadata"]["name"])
            if name.endswith(TEST_DOMAIN):
                self.client.delete(paths.device_classes(name))

    def told(self, name: str, reason: str) -> str:
        """Wait for an event with *reason* about the pod *name* and return its message."""
        return str(self._told(name, lambda: "\n".join(self.events(name, reason))))

    def node_says(self, text: str) -> bool:
        """Tell whether an event about the node with a kubelet has *text* in it."""
        items = json.loads(self.client.get(paths.events()))["items"]
        return any(
            text in each["message"]
            for each in items
            if each["involvedObject"]["kind"] == "Node"
            and each["involvedObject"].get("name") == self.node
        )

    def clear(self) -> None:
        """Delete all pods, then all claims and templates, and wait until they are gone."""
        self._clear_classes()
        for path in (
            paths.pods(_NAMESPACE),
            paths.resource_claims(_NAMESPACE),
            paths.resource_claim_templates(_NAMESPACE),
        ):
            for each in json.loads(self.client.get(path))["items"]:
                virtual = each.get("spec", {}).get("nodeName", self.node) != self.node
                with contextlib.suppress(NotFoundError):
                    self._remove(f"{path}/{each['metadata']['name']}", now=virtual)
            eventually(lambda path=path: not json.loads(self.client.get(path))["items"])  # type: ignore[misc]

    def _judge_specs(self) -> None:
        """Check each spec that is there with the library that container engines use."""
        for verdict in judge(self.driver.cluster.assets, self.driver.specs()):
            # A claim may be given back, and its spec go, between the list and the look.
            if Path(verdict.path).exists():
                assert verdict.valid, f"{verdict.path}: {verdict.error}"

    def _remove(self, path: str, *, now: bool) -> None:
        if now:
            # Nobody on a node without a kubelet confirms the end of a pod.
            command = ("delete", "--raw", f"{path}?gracePeriodSeconds=0")
            self.driver.cluster.kubectl(*command)
        else:
            self.client.delete(path)

    def _gone(self, path: str) -> bool:
        try:
            self.client.get(path)
        except NotFoundError:
            return True
        return False

    def _told(self, name: str, condition: Any) -> Any:
        """Return the first true answer; a failure says how far the pod *name* is."""
        try:
            return eventually(condition)
        except AssertionError as error:
            pod = self.pod(name)
            told = [
                f"{each['reason']}: {each['message']}"
                for each in json.loads(self.client.get(paths.events(_NAMESPACE)))["items"]
                if each["involvedObject"].get("name") == name
            ]
            message = f"pod {name}: {json.dumps(pod['status'])}\n" + "\n".join(told)
            raise AssertionError(message) from error

    def _given(self, result: Object) -> Given:
        node = str(result["pool"])
        device = next(
            each for each in devices_of(self.client, node) if each["name"] == result["device"]
        )
        consumed = {
            key: parse(str(value)).value()
            for key, value in (result.get("consumedCapacity") or {}).items()
        }
        memory = consumed.get(names.CAPACITY_MEMORY)
        return Given(
            request=str(result["request"]),
            node=node,
            product=device["attributes"]["productName"]["string"],
            uuid=device["attributes"]["uuid"]["string"],
            pci_bus_id=device["attributes"][names.ATTRIBUTE_PCI_BUS_ID]["string"],
            memory_mib=None if memory is None else memory // MIB,
            cores_percent=consumed.get(names.CAPACITY_CORES, 0),
        )


def placed(manifest: Object) -> Object:
    """Return the object in the scenes' namespace, unless its kind has none."""
    if manifest["kind"] == "DeviceClass":
        return manifest
    return {**manifest, "metadata": {**manifest["metadata"], "namespace": _NAMESPACE}}


def why_pending(pod: Object) -> str:
    """Return what the scheduler says against the pod, empty when it has said nothing."""
    for each in pod.get("status", {}).get("conditions", []):
        if each["type"] == "PodScheduled" and each["status"] == "False":
            return str(each.get("message", ""))
    return ""


@contextlib.contextmanager
def stage_of(driver: Driver) -> Iterator[Stage]:
    """Return a stage for one scene; it is cleared at the end, and then nothing may be left."""
    with driver.cluster.client() as client:
        stage = Stage(client, driver)
        before = {each: len(driver.log(each)) for each in driver.agents}
        try:
            yield stage
        finally:
            driver.repair()
            stage.clear()
        expect_nothing_left(driver)
        said = {each: driver.log(each)[before[each] :] for each in driver.agents}
        assert not [line for log in said.values() for line in errors_in(log)]
