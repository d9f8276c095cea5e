"""Where the API server keeps each kind of object: URL paths with every part quoted.

Names come from outside (kubelet, manifests), so a name that would lead to another path is refused
here and not left to the server: HTTP libraries resolve `..` before they send.
"""

from urllib.parse import quote

DRA_VERSION = "v1"
"""Served since Kubernetes 1.34; older clusters have `v1beta2` and `v1beta1`."""

VERSION = "/version"


def resource(
    group_version: str,
    plural: str,
    *,
    namespace: str | None = None,
    name: str | None = None,
    subresource: str | None = None,
) -> str:
    """Return the path of a collection or, with *name*, of one object or its *subresource*.

    *group_version* is `v1` or `<group>/<version>`. Raises `ValueError` for a part that cannot be
    a name.
    """
    parts = ["apis" if "/" in group_version else "api", *group_version.split("/")]
    if namespace is not None:
        parts += ["namespaces", namespace]
    parts.append(plural)
    if name is not None:
        parts.append(name)
        if subresource is not None:
            parts.append(subresource)
    return "/" + "/".join(_segment(part) for part in parts)


def _segment(part: str) -> str:
    if part in {"", ".", ".."}:
        message = f"`{part}` cannot be a part of a path in the API"
        raise ValueError(message)
    return quote(part, safe="")


def resource_slices(name: str | None = None, *, version: str = DRA_VERSION) -> str:
    """Return the path of the ResourceSlices or of one."""
    return resource(f"resource.k8s.io/{version}", "resourceslices", name=name)


def device_classes(name: str | None = None, *, version: str = DRA_VERSION) -> str:
    """Return the path of the DeviceClasses or of one."""
    return resource(f"resource.k8s.io/{version}", "deviceclasses", name=name)


def resource_claims(
    namespace: str | None = None,
    name: str | None = None,
    subresource: str | None = None,
    *,
    version: str = DRA_VERSION,
) -> str:
    """Return the path of ResourceClaims: all, those of a *namespace*, or one."""
    return resource(
        f"resource.k8s.io/{version}",
        "resourceclaims",
        namespace=namespace,
        name=name,
        subresource=subresource,
    )


def resource_claim_templates(
    namespace: str | None = None, name: str | None = None, *, version: str = DRA_VERSION
) -> str:
    """Return the path of ResourceClaimTemplates: all, those of a *namespace*, or one."""
    return resource(
        f"resource.k8s.io/{version}", "resourceclaimtemplates", namespace=namespace, name=name
    )


def nodes(name: str | None = None, subresource: str | None = None) -> str:
    """Return the path of the Nodes or of one."""
    return resource("v1", "nodes", name=name, subresource=subresource)


def namespaces(name: str | None = None) -> str:
    """Return the path of the Namespaces or of one."""
    return resource("v1", "namespaces", name=name)


def pods(
    namespace: str | None = None, name: str | None = None, subresource: str | None = None
) -> str:
    """Return the path of Pods: all, those of a *namespace*, or one."""
    return resource("v1", "pods", namespace=namespace, name=name, subresource=subresource)


def events(namespace: str | None = None, name: str | None = None) -> str:
    """Return the path of core Events: all, those of a *namespace*, or one."""
    return resource("v1", "events", namespace=namespace, name=name)


def leases(namespace: str, name: str | None = None) -> str:
    """Return the path of the Leases of a *namespace* or of one."""
    return resource("coordination.k8s.io/v1", "leases", namespace=namespace, name=name)
