"""Tells the API server whom to trust when it asks our webhooks.

Only the webhooks that lead to our Service, or to our URL, are changed, each by one operation that
is guarded by its name: others may add webhooks to a configuration of ours, and tools that apply
the chart anew take the bundle away again, so it is put back whenever that is seen.
"""

import base64
import json
from collections.abc import Sequence
from typing import Any, Final

import structlog

from kube.client import JSON_PATCH, Client
from kube.errors import KubeError, NotFoundError
from kube.objects import JsonObject
from kube.paths import resource

log = structlog.get_logger(__name__)

PLURALS: Final = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")


def configuration_path(plural: str, name: str | None = None) -> str:
    """Return the path of the webhook configurations of one kind, or of one of them."""
    return resource("admissionregistration.k8s.io/v1", plural, name=name)


class BundleWriter:
    """Writes a bundle into the configurations of some *names*, whichever of both kinds exist."""

    def __init__(
        self,
        client: Client,
        names: Sequence[str],
        *,
        namespace: str,
        service_name: str,
        url: str = "",
    ) -> None:
        """Prepare; *url* is what the paths of webhooks follow that do not name the Service."""
        self._client = client
        self._url = url.rstrip("/")
        self._names = tuple(names)
        self._service = {"namespace": namespace, "name": service_name}
        self._problems: dict[str, str] = {"": "not written yet"}

    def write(self, bundle: bytes) -> None:
        """Put *bundle* where it is missing; what fails is logged, and tried again next time."""
        problems: dict[str, str] = {}
        for name in self._names:
            for plural in PLURALS:
                try:
                    self._write(plural, name, base64.b64encode(bundle).decode())
                except NotFoundError:
                    continue
                except KubeError as error:
                    problems[f"{plural}/{name}"] = str(error)
        for where, problem in problems.items():
            if self._problems.get(where) != problem:
                log.error("authorities not written", configuration=where, reason=problem)
        self._problems = problems

    def problem(self) -> str | None:
        """Return what the last try could not do, `None` if it could do all."""
        return (
            "; ".join(f"{where} {said}".strip() for where, said in self._problems.items()) or None
        )

    def _write(self, plural: str, name: str, bundle: str) -> None:
        path = configuration_path(plural, name)
        configuration = json.loads(self._client.get(path))
        if operations := self._operations(configuration, bundle):
            self._client.patch(path, operations, content_type=JSON_PATCH)
            log.info("authorities written", configuration=f"{plural}/{name}")

    def _operations(self, configuration: JsonObject, bundle: str) -> list[Any]:
        operations: list[Any] = []
        for index, webhook in enumerate(configuration.get("webhooks") or ()):
            client = webhook["clientConfig"]
            if self._leads_here(client) and client.get("caBundle") != bundle:
                at = f"/webhooks/{index}"
                operations += [
                    {"op": "test", "path": f"{at}/name", "value": webhook["name"]},
                    {"op": "add", "path": f"{at}/clientConfig/caBundle", "value": bundle},
                ]
        return operations

    def _leads_here(self, client: JsonObject) -> bool:
        if self._service.items() <= (client.get("service") or {}).items():
            return True
        return bool(self._url) and str(client.get("url") or "").startswith(f"{self._url}/")
