"""The cluster as the checks see it: each list is read once, and a refusal is remembered too."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, TypeVar, cast

from kube import paths
from kube.cabundle import PLURALS, configuration_path
from kube.draversions import VersionedClient
from kube.errors import KubeError, NotFoundError
from kube.objects import JsonObject

NAME_LABEL: Final = "app.kubernetes.io/name"
COMPONENT_LABEL: Final = "app.kubernetes.io/component"
OURS: Final = "gpuslice"
OUR_SUFFIX: Final = ".gpuslice.io"
"""Of the names of our webhooks."""
NODE_AGENT: Final = "node-agent"
WEBHOOK: Final = "webhook"
SCHEDULER: Final = "scheduler"

_PAGE: Final = "500"
_ENDED: Final = ("Succeeded", "Failed")

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class _Answer:
    value: Any
    error: KubeError | None = None


class Cluster:
    """One cluster, read with one identity."""

    def __init__(
        self, client: VersionedClient, *, namespace: str | None, trial_namespace: str
    ) -> None:
        """Prepare; *namespace* is ours, if given, and *trial_namespace* where trials are made."""
        self.client = client
        self.trial_namespace = trial_namespace
        self.now = datetime.now(UTC)
        self._given = namespace
        self._answers: dict[str, _Answer] = {}

    def once(self, key: str, ask: Callable[[], Value]) -> Value:
        """Return what *ask* returned, or raise the `KubeError` it raised, the first time."""
        if key not in self._answers:
            try:
                self._answers[key] = _Answer(ask())
            except KubeError as error:
                self._answers[key] = _Answer(None, error)
        answer = self._answers[key]
        if answer.error is not None:
            raise answer.error
        return cast("Value", answer.value)

    @property
    def version(self) -> str:
        """The server's version, such as `v1.36.2`."""
        return self.once("version", self.client.server_version)

    def items(self, path: str, params: Mapping[str, str] | None = None) -> list[JsonObject]:
        """Return all objects of the collection at *path*; raises `KubeError`."""
        key = f"{path}?{sorted((params or {}).items())}"
        return self.once(key, lambda: self._listed(path, dict(params or {})))

    def wished(self, path: str, params: Mapping[str, str] | None = None) -> list[JsonObject]:
        """Return the same, or nothing where that cannot be had: for what only helps to look."""
        try:
            return self.items(path, params)
        except KubeError:
            return []

    def item(self, path: str) -> JsonObject | None:
        """Return the object at *path*, `None` where there is none; raises `KubeError`."""

        def ask() -> JsonObject | None:
            try:
                found = json.loads(self.client.get(path))
            except NotFoundError as error:
                if error.reason == "NotFound":
                    return None
                raise
            return found if isinstance(found, dict) else None

        return self.once(path, ask)

    def own_pods(self, component: str) -> list[JsonObject]:
        """Return the pods of one part of ours, but for those that have ended; raises `KubeError`.

        What was evicted is listed until somebody deletes it, and another has its place.
        """
        found = self._own(paths.pods(self._given), component)
        return [pod for pod in found if (pod.get("status") or {}).get("phase") not in _ENDED]

    def own_daemonsets(self) -> list[JsonObject]:
        """Return the DaemonSets of our node agents; raises `KubeError`."""
        path = paths.resource("apps/v1", "daemonsets", namespace=self._given)
        return self._own(path, NODE_AGENT)

    def _own(self, path: str, component: str) -> list[JsonObject]:
        """Return what has the labels of a part of ours.

        In the namespace that was given all is ours, whatever the chart's `nameOverride` is.
        """
        selectors = [f"{NAME_LABEL}={name}" for name in sorted(self._names())]
        chosen = [None] if self._given else [{"labelSelector": each} for each in selectors]
        found = [each for params in chosen for each in self.items(path, params)]
        return [each for each in found if label(each, COMPONENT_LABEL) == component]

    def _names(self) -> set[str]:
        """Return what our objects may be called: those that are known by their webhooks say it."""
        names = {OURS}
        for configuration in (
            it for each in PLURALS for it in self.wished(configuration_path(each))
        ):
            hooks = configuration.get("webhooks") or ()
            if any(str(hook.get("name")).endswith(OUR_SUFFIX) for hook in hooks):
                names.add(label(configuration, NAME_LABEL) or OURS)
        return names

    def _listed(self, path: str, params: dict[str, str]) -> list[JsonObject]:
        found: list[JsonObject] = []
        params["limit"] = _PAGE
        while True:
            page = json.loads(self.client.get(path, params))
            found += page.get("items") or ()
            following = (page.get("metadata") or {}).get("continue")
            if not following:
                return found
            params["continue"] = following


def name_of(item: JsonObject) -> str:
    """Return the name of an object."""
    return str((item.get("metadata") or {}).get("name", ""))


def namespace_of(item: JsonObject) -> str:
    """Return the namespace of an object."""
    return str((item.get("metadata") or {}).get("namespace", ""))


def label(item: JsonObject, key: str) -> str | None:
    """Return a label of an object."""
    return ((item.get("metadata") or {}).get("labels") or {}).get(key)


def annotation(item: JsonObject, key: str) -> str | None:
    """Return an annotation of an object."""
    return ((item.get("metadata") or {}).get("annotations") or {}).get(key)


def flags(pod: JsonObject, flag: str) -> Iterator[str]:
    """Yield the values of *flag*, such as `--name=`, in the commands of a pod's containers."""
    for container in (pod.get("spec") or {}).get("containers") or ():
        for word in (*(container.get("command") or ()), *(container.get("args") or ())):
            if str(word).startswith(flag):
                yield str(word).removeprefix(flag)


def is_ready(pod: JsonObject) -> bool:
    """Tell whether a pod says that it is ready."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)


def node_name(pod: JsonObject) -> str:
    """Return the node of a pod, empty before it has one."""
    return str((pod.get("spec") or {}).get("nodeName") or "")


def moment(text: object) -> datetime | None:
    """Read a time as objects have it."""
    try:
        found = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def names_of(items: Iterable[JsonObject]) -> list[str]:
    """Return the names of objects in their order."""
    return [name_of(item) for item in items]
