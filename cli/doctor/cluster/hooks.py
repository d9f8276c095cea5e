"""Which webhooks the API server asks, ours and those of others, and where each of them is."""

import base64
import binascii
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from cli.doctor.cluster.view import OUR_SUFFIX, Cluster, name_of
from kube.cabundle import PLURALS, configuration_path
from kube.objects import JsonObject

MUTATING, VALIDATING = PLURALS
PODS_HOOK: Final = "pods.gpuslice.io"
_HTTPS: Final = 443


@dataclass(frozen=True, slots=True, kw_only=True)
class Hook:
    """One webhook of a configuration."""

    plural: str
    configuration: str
    name: str
    raw: JsonObject

    @property
    def is_ours(self) -> bool:
        """Tell whether it is one of those that the chart makes."""
        return self.name.endswith(OUR_SUFFIX)

    @property
    def bundle(self) -> str:
        """The authorities in PEM, empty where there are none that can be read."""
        text = (self.raw.get("clientConfig") or {}).get("caBundle") or ""
        try:
            return base64.b64decode(text, validate=True).decode("ascii")
        except (binascii.Error, ValueError):
            return ""

    @property
    def has_authorities(self) -> bool:
        """Tell whether the API server can trust it; it trusts URLs by its own authorities too."""
        return bool(self.bundle) or self.service is None

    @property
    def service(self) -> tuple[str, str, int] | None:
        """Namespace, name and port of its Service; `None` where it has a URL."""
        found = (self.raw.get("clientConfig") or {}).get("service")
        if not isinstance(found, dict):
            return None
        port = found.get("port") or _HTTPS
        return str(found.get("namespace")), str(found.get("name")), int(port)

    @property
    def address(self) -> tuple[str, int]:
        """The name in its certificate and the port."""
        if self.service is not None:
            namespace, name, port = self.service
            return f"{name}.{namespace}.svc", port
        url = urlsplit(str((self.raw.get("clientConfig") or {}).get("url") or ""))
        return url.hostname or "", url.port or _HTTPS


def hooks(cluster: Cluster, plural: str) -> list[Hook]:
    """Return all webhooks of one kind of configuration; raises `KubeError`."""
    return [
        Hook(
            plural=plural,
            configuration=name_of(configuration),
            name=str(each.get("name")),
            raw=each,
        )
        for configuration in cluster.items(configuration_path(plural))
        for each in configuration.get("webhooks") or ()
    ]


def our_hooks(cluster: Cluster) -> list[Hook]:
    """Return ours of both kinds; raises `KubeError`."""
    return [hook for plural in PLURALS for hook in hooks(cluster, plural) if hook.is_ours]


def exempt_namespaces(hook: Hook) -> set[str]:
    """Return the namespaces that its selector leaves out by their names."""
    found: set[str] = set()
    for each in _expressions(hook):
        if each.get("key") == "kubernetes.io/metadata.name" and each.get("operator") == "NotIn":
            found |= set(each.get("values") or ())
    return found


def is_exempt(hook: Hook, namespace: JsonObject) -> bool:
    """Tell whether the webhook is not asked about *namespace*, as far as labels decide."""
    labels = {
        "kubernetes.io/metadata.name": name_of(namespace),
        **((namespace.get("metadata") or {}).get("labels") or {}),
    }
    return any(
        each.get("operator") == "NotIn"
        and labels.get(each.get("key")) in (each.get("values") or ())
        for each in _expressions(hook)
    )


def _expressions(hook: Hook) -> Iterator[JsonObject]:
    selector = hook.raw.get("namespaceSelector") or {}
    yield from selector.get("matchExpressions") or ()
