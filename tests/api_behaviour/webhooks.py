"""Webhooks for scenes: a TLS server next to the API server, and configurations that name it.

They see secrets, which nobody else makes in a new namespace. A configuration counts once the API
server has seen it. So each has a first webhook for probes, which warns, and the scene goes on when
a probe is answered with that warning.
"""

import base64
import contextlib
import json
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.api_behaviour.server import JsonObject, Server
from tests.cluster.webhook_server import Answer, webhook_server
from tests.patience import eventually

GROUP: Final = "/apis/admissionregistration.k8s.io/v1"
MUTATING: Final = "MutatingWebhookConfiguration"
VALIDATING: Final = "ValidatingWebhookConfiguration"
_ADDRESS: Final = "127.0.0.1"
NOBODY: Final = "https://127.0.0.1:1/nobody"
"""Where nothing listens."""


@dataclass(slots=True, kw_only=True)
class Hooks:
    """The webhooks of one scene; *seen* are the requests that they got, probes aside."""

    api: Server
    port: int
    authority: str
    seen: list[JsonObject] = field(default_factory=list)

    def hook(self, name: str, *, url: str = "", **fields: Any) -> JsonObject:
        """Return a webhook that answers at the path of its *name*, for secrets of the namespace."""
        url = url or f"https://{_ADDRESS}:{self.port}/{name}"
        operations = fields.pop("operations", ["CREATE", "UPDATE", "DELETE"])
        space = {"kubernetes.io/metadata.name": self.api.namespace}
        rule = {
            "apiGroups": [""],
            "apiVersions": ["v1"],
            "operations": operations,
            "resources": ["secrets"],
        }
        return {
            "name": f"{name}.gpuslice.test",
            "clientConfig": {"url": url, "caBundle": self.authority},
            "rules": [rule],
            "namespaceSelector": {"matchLabels": space},
            "objectSelector": {"matchExpressions": [{"key": "probe", "operator": "DoesNotExist"}]},
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "timeoutSeconds": 5,
            **fields,
        }

    @contextlib.contextmanager
    def configured(self, kind: str, *hooks: JsonObject) -> Iterator[str]:
        """Have a configuration of *kind* in force for the block; its path."""
        probe = self.hook("probe", objectSelector={"matchLabels": {"probe": "yes"}})
        body = {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": kind,
            "metadata": {"name": self.api.own("hooks")},
            "webhooks": [probe, *hooks],
        }
        plural = f"{GROUP}/{kind.lower()}s"
        path = f"{plural}/{self.api.own('hooks')}"
        self.api.send("", "POST", plural, body)
        try:
            eventually(self._in_force)
            yield path
        finally:
            self.api.send("", "DELETE", path)

    def _in_force(self) -> bool:
        metadata = {"name": "probe", "labels": {"probe": "yes"}}
        response = self.api.client._send(
            "POST",
            self.api.at("secrets"),
            {"dryRun": "All"},
            headers={"Content-Type": "application/json"},
            body=json.dumps({"metadata": metadata}).encode(),
        )
        return any("probed" in text for text in response.headers.getlist("Warning"))


@contextlib.contextmanager
def hooks_of(api: Server, answer: Answer) -> Iterator[Hooks]:
    """Serve webhooks for the block; *answer* is asked about all but probes."""
    hooks = Hooks(api=api, port=0, authority="")

    def answered(path: str, request: JsonObject) -> JsonObject:
        if path == "/probe":
            return {"allowed": True, "warnings": ["probed"]}
        hooks.seen.append({key: item for key, item in request.items() if key != "userInfo"})
        return answer(path, request)

    with (
        tempfile.TemporaryDirectory() as folder,
        webhook_server(_ADDRESS, _ADDRESS, Path(folder), answered) as (port, authority),
    ):
        hooks.port = port
        hooks.authority = base64.b64encode(authority).decode()
        yield hooks
