"""A server under observation, simulated or real: what it is asked and what it answers.

A scene asks with `get`, `post`, `put`, `patch` and `delete`; every answer is told under a label of
the scene's, in a form in which two servers can be compared (see `normal.py`).
"""

import contextlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from kube.client import MERGE_PATCH, Client
from tests.api_behaviour.normal import Names, answer_of, printed

JsonObject = dict[str, Any]
Kubectl = Callable[[Sequence[str], str | None], tuple[int, str, str]]
"""Run kubectl with these arguments and this input; exit status, output and errors."""

DRA: Final = "/apis/resource.k8s.io/v1"
_NAMESPACED: Final = {"resourceclaims", "resourceclaimtemplates"}


@dataclass(slots=True, kw_only=True)
class Server:
    """One scene's view of a server: its client, a namespace, and what it has told so far."""

    client: Client
    namespace: str
    kubectl: Kubectl | None
    names: Names = field(init=False)
    told: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.names = Names(self.namespace)

    def at(self, plural: str, name: str = "", subresource: str = "") -> str:
        """Return the path of a core resource in the scene's namespace, or of one without."""
        below = "" if plural in {"nodes", "namespaces"} else f"/namespaces/{self.namespace}"
        return "/".join(filter(None, (f"/api/v1{below}", plural, name, subresource)))

    def dra(self, plural: str, name: str = "", subresource: str = "") -> str:
        """Return the path of a resource of device allocation."""
        below = f"/namespaces/{self.namespace}" if plural in _NAMESPACED else ""
        return "/".join(filter(None, (f"{DRA}{below}", plural, name, subresource)))

    def own(self, name: str) -> str:
        """Return a name that no other scene uses, for objects outside of namespaces."""
        return f"{self.namespace}-{name}"

    def tell(self, label: str, value: Any) -> None:
        """Note what was seen, made comparable."""
        assert label not in self.told, f"{label} was told before"
        self.told[label] = self.names.normal(value)

    def get(
        self,
        label: str,
        path: str,
        params: Mapping[str, str] | None = None,
        accept: str = "application/json",
    ) -> JsonObject:
        """GET and tell."""
        return self.send(label, "GET", path, params=params, headers={"Accept": accept})

    def post(
        self, label: str, path: str, body: Any, params: Mapping[str, str] | None = None
    ) -> JsonObject:
        """POST and tell."""
        return self.send(label, "POST", path, body, params=params)

    def put(self, label: str, path: str, body: Any) -> JsonObject:
        """PUT and tell."""
        return self.send(label, "PUT", path, body)

    def patch(
        self,
        label: str,
        path: str,
        body: Any,
        content_type: str = MERGE_PATCH,
        params: Mapping[str, str] | None = None,
    ) -> JsonObject:
        """PATCH and tell."""
        headers = {"Content-Type": content_type}
        return self.send(label, "PATCH", path, body, params=params, headers=headers)

    def delete(
        self, label: str, path: str, options: JsonObject | None = None, **params: str
    ) -> JsonObject:
        """DELETE and tell."""
        return self.send(label, "DELETE", path, options, params=params)

    def send(
        self,
        label: str,
        method: str,
        path: str,
        body: Any = None,
        *,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> JsonObject:
        """Ask, tell under *label* unless that is empty, and return the body."""
        content: JsonObject = {"headers": {"Content-Type": "application/json", **(headers or {})}}
        if body is not None:
            content["body"] = json.dumps(body).encode()
        response = self.client._send(method, path, params, **content)
        found = _body(response.data)
        if label:
            warnings = response.headers.getlist("Warning")
            self.tell(label, answer_of(response.status, found, warnings))
        return found

    def run_kubectl(
        self, label: str, *arguments: str, stdin: str | None = None, without: tuple[str, ...] = ()
    ) -> str:
        """Run kubectl in the scene's namespace and tell what it printed, some lines aside."""
        assert self.kubectl is not None
        command = (f"--namespace={self.namespace}", *arguments)
        status, output, errors = self.kubectl(command, stdin)
        lines = printed(output).splitlines()
        kept = "\n".join(line for line in lines if not line.startswith(without or ("\0",)))
        self.tell(label, {"exit": status, "output": kept, "errors": printed(errors)})
        return output


def _body(data: bytes) -> JsonObject:
    """Return an object, the events of a watch that has ended, or a text that is neither."""
    with contextlib.suppress(ValueError):
        found: JsonObject = json.loads(data)
        return found
    text = data.decode()
    try:
        return {"kind": "events", "events": [json.loads(line) for line in text.splitlines()]}
    except ValueError:
        return {"kind": "text", "text": text}
