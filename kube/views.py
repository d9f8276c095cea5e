"""The few fields of claims and pods that the node agent reads.

Narrow on purpose: decoding straight from bytes into these is faster than `json.loads`, and what
is not named here can change without harm. Unknown fields are ignored; to change an object, patch
it, because a view has lost the rest.
"""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from kube.objects import JsonObject, ObjectKey


class _View(BaseModel):
    model_config = ConfigDict(
        alias_generator=to_camel,
        extra="ignore",
        frozen=True,
        validate_by_name=True,
        validate_by_alias=True,
    )


class MetadataView(_View):
    """What names an object and tells it from an earlier one of the same name."""

    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    deletion_timestamp: str | None = None
    annotations: dict[str, str] | None = None
    labels: dict[str, str] | None = None

    @property
    def key(self) -> ObjectKey:
        """Return namespace and name."""
        return ObjectKey(self.namespace, self.name)


class ObjectView(_View):
    """Any object of which only the metadata matters."""

    metadata: MetadataView


class AllocationResultView(_View):
    """One device, or a share of it, given to one request of a claim."""

    request: str
    """`<request>` or, of a `firstAvailable` list, `<request>/<subrequest>`."""
    driver: str
    pool: str
    device: str
    admin_access: bool | None = None
    share_id: Annotated[str | None, Field(alias="shareID")] = None
    """Only with devices that allow multiple allocations."""
    consumed_capacity: dict[str, str] | None = None
    """Quantities; `None` where the server does not keep them (see `kube.quantity`)."""


class OpaqueView(_View):
    """Parameters that Kubernetes hands through unread."""

    driver: str
    parameters: JsonObject


class ConfigView(_View):
    """One configuration for the *requests* named, or for all when there are none."""

    source: str
    """`FromClass` or `FromClaim`."""
    requests: tuple[str, ...] | None = None
    opaque: OpaqueView | None = None


class DevicesView(_View):
    """The devices of an allocation and how they are to be configured."""

    results: tuple[AllocationResultView, ...] = ()
    config: tuple[ConfigView, ...] = ()


class AllocationView(_View):
    """What the scheduler decided."""

    devices: DevicesView = DevicesView()


class ConsumerView(_View):
    """An object, in practice a pod, that may use a claim."""

    resource: str
    name: str
    uid: str


class ClaimStatusView(_View):
    """The state of a claim; no allocation means that it is pending."""

    allocation: AllocationView | None = None
    reserved_for: tuple[ConsumerView, ...] = ()


class AlternativeView(_View):
    """One entry of a request's `firstAvailable`."""

    name: str
    device_class_name: str = ""


class ExactRequestView(_View):
    """A request without alternatives."""

    device_class_name: str = ""


class DeviceRequestView(_View):
    """One request of a claim: *exactly* or *first_available*."""

    name: str
    exactly: ExactRequestView | None = None
    first_available: tuple[AlternativeView, ...] = ()

    def classes(self) -> dict[str, str]:
        """Map the names that results use, `<request>` or `<request>/<alternative>`, to classes."""
        if self.exactly is not None:
            return {self.name: self.exactly.device_class_name}
        return {f"{self.name}/{each.name}": each.device_class_name for each in self.first_available}


class RequestsView(_View):
    """What a claim asks for."""

    requests: tuple[DeviceRequestView, ...] = ()


class ClaimSpecView(_View):
    """The part of a claim that never changes."""

    devices: RequestsView = RequestsView()


class ClaimView(_View):
    """A ResourceClaim."""

    metadata: MetadataView
    spec: ClaimSpecView = ClaimSpecView()
    status: ClaimStatusView = ClaimStatusView()


class ContainerClaimView(_View):
    """A container's use of one of its pod's claims; without *request*, of all its devices."""

    name: str
    """The entry in the pod's `resourceClaims`, not the claim's own name."""
    request: str | None = None


class ResourcesView(_View):
    """The part of a container's resources that refers to claims."""

    claims: tuple[ContainerClaimView, ...] = ()


class ContainerView(_View):
    """A container; an init container with *restart_policy* `Always` is a sidecar."""

    name: str
    restart_policy: str | None = None
    resources: ResourcesView = ResourcesView()


class PodClaimView(_View):
    """A claim that a pod uses, by name or made from a template."""

    name: str
    resource_claim_name: str | None = None


class PodSpecView(_View):
    """What a pod runs."""

    node_name: str | None = None
    containers: tuple[ContainerView, ...] = ()
    init_containers: tuple[ContainerView, ...] = ()
    resource_claims: tuple[PodClaimView, ...] = ()


class PodClaimStatusView(_View):
    """Which claim was made for an entry of the pod; `None` when none was needed."""

    name: str
    resource_claim_name: str | None = None


class PodStatusView(_View):
    """How far a pod is."""

    phase: str = ""
    resource_claim_statuses: tuple[PodClaimStatusView, ...] = ()


class PodView(_View):
    """A Pod."""

    metadata: MetadataView
    spec: PodSpecView = PodSpecView()
    status: PodStatusView = PodStatusView()

    def claim_names(self) -> dict[str, str]:
        """Map entries of `resourceClaims` to the names of claims that exist for them."""
        named = {each.name: each.resource_claim_name for each in self.spec.resource_claims}
        made = {each.name: each.resource_claim_name for each in self.status.resource_claim_statuses}
        return {entry: name for entry, name in (named | made).items() if name is not None}
