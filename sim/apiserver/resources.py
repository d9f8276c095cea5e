"""Which resources the server serves, as data.

The table holds what differs between resources in the real server: names for discovery, scope,
whether a status subresource exists, whether spec changes are counted in `metadata.generation`
and whether DELETE answers with the object or with a Status (kubernetes: pkg/registry, the
strategies and storages of each resource).
"""

from __future__ import annotations

from dataclasses import dataclass

from sim.apiserver.errors import no_such_path


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceType:
    """One resource: the row that all generic code is driven by."""

    plural: str
    kind: str
    group: str = ""
    version: str = "v1"
    namespaced: bool = True
    status: bool = False
    """There is a `status` subresource, and plain writes leave the status alone."""
    keeps_status_on_create: bool = False
    generation: bool = False
    delete_returns_object: bool = False
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    deletes_collection: bool = True
    subresources: tuple[str, ...] = ()
    """Those besides `status`."""
    since: int = 0
    """The first minor that serves the resource at this version by default."""
    unconditional_update: bool = True
    """An update need not say which resourceVersion it replaces."""
    kept: bool = True
    """Objects are stored; others are questions, answered at creation."""

    @property
    def api_version(self) -> str:
        """Return what stands in the objects: `v1` or `resource.k8s.io/v1`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def has_subresource(self, name: str) -> bool:
        """Tell whether *name* can be written; the empty one is the object itself."""
        return not name or name in self.subresources or (name == "status" and self.status)

    @property
    def qualified(self) -> str:
        """Return the name in messages: `pods` or `resourceclaims.resource.k8s.io`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def qualified_kind(self) -> str:
        """Return the kind in messages: `Pod` or `ResourceClaim.resource.k8s.io`."""
        return f"{self.kind}.{self.group}" if self.group else self.kind


_DRA = "resource.k8s.io"
_ADMISSION = "admissionregistration.k8s.io"

RESOURCES = (
    ResourceType(
        plural="namespaces",
        kind="Namespace",
        namespaced=False,
        status=True,
        short_names=("ns",),
        deletes_collection=False,
        subresources=("finalize",),
    ),
    ResourceType(
        plural="nodes",
        kind="Node",
        namespaced=False,
        status=True,
        keeps_status_on_create=True,
        short_names=("no",),
    ),
    ResourceType(
        plural="pods",
        kind="Pod",
        status=True,
        generation=True,
        delete_returns_object=True,
        short_names=("po",),
        categories=("all",),
        subresources=("binding",),
    ),
    ResourceType(plural="events", kind="Event", short_names=("ev",)),
    ResourceType(
        plural="serviceaccounts",
        kind="ServiceAccount",
        delete_returns_object=True,
        short_names=("sa",),
    ),
    ResourceType(plural="secrets", kind="Secret"),
    ResourceType(plural="configmaps", kind="ConfigMap", short_names=("cm",)),
    ResourceType(
        plural="resourcequotas",
        kind="ResourceQuota",
        status=True,
        delete_returns_object=True,
        short_names=("quota",),
    ),
    ResourceType(plural="leases", kind="Lease", group="coordination.k8s.io"),
    ResourceType(
        plural="subjectaccessreviews",
        kind="SubjectAccessReview",
        group="authorization.k8s.io",
        namespaced=False,
        kept=False,
    ),
    ResourceType(
        plural="resourceslices",
        kind="ResourceSlice",
        group=_DRA,
        namespaced=False,
        generation=True,
        delete_returns_object=True,
    ),
    ResourceType(
        plural="resourceclaims",
        kind="ResourceClaim",
        group=_DRA,
        status=True,
        delete_returns_object=True,
    ),
    ResourceType(
        plural="resourceclaimtemplates",
        kind="ResourceClaimTemplate",
        group=_DRA,
        delete_returns_object=True,
    ),
    ResourceType(
        plural="deviceclasses",
        kind="DeviceClass",
        group=_DRA,
        namespaced=False,
        generation=True,
        delete_returns_object=True,
    ),
    ResourceType(
        plural="devicetaintrules",
        kind="DeviceTaintRule",
        group=_DRA,
        namespaced=False,
        status=True,
        generation=True,
        since=37,
        unconditional_update=False,
    ),
    ResourceType(
        plural="mutatingwebhookconfigurations",
        kind="MutatingWebhookConfiguration",
        group=_ADMISSION,
        namespaced=False,
        generation=True,
        categories=("api-extensions",),
    ),
    ResourceType(
        plural="validatingwebhookconfigurations",
        kind="ValidatingWebhookConfiguration",
        group=_ADMISSION,
        namespaced=False,
        generation=True,
        categories=("api-extensions",),
    ),
)

BY_PLURAL = {resource.plural: resource for resource in RESOURCES}
BY_KIND = {(resource.api_version, resource.kind): resource for resource in RESOURCES}


def resource_type(plural: str) -> ResourceType:
    """Return the row of *plural*; 404 as for a path that nothing serves."""
    found = BY_PLURAL.get(plural)
    if found is None:
        raise no_such_path()
    return found


def served(minor: int) -> tuple[ResourceType, ...]:
    """Return the resources that release 1.*minor* serves."""
    return tuple(resource for resource in RESOURCES if resource.since <= minor)
