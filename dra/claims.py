"""Reading a claim from the API server and taking out what concerns this driver.

Kubelet hands over namespace, name and UID only. Claims are replaced under the same name, so the
UID decides; whatever does not look as the API documents it is refused with the place named.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Protocol

from pydantic import ValidationError

from dra.allocation import AllocatedDevice, Allocation, ConfigEntry
from gpu import names
from gpu.refusal import Refusal, RefusedError
from kube import paths
from kube.client import Client
from kube.errors import ConnectionFailedError, KubeError, NotFoundError
from kube.views import AllocationResultView, ClaimView, ConfigView


class ClaimReference(Protocol):
    """What kubelet says of a claim: DRA's `Claim` message in any version."""

    namespace: str
    name: str
    uid: str


def fetch(client: Client, reference: ClaimReference) -> ClaimView:
    """Return the claim that *reference* names; raise `RefusedError` when it is not that one."""
    try:
        body = client.get(paths.resource_claims(reference.namespace, reference.name))
        claim = ClaimView.model_validate_json(body)
    except NotFoundError as error:
        raise _refused("ClaimNotFound", reference, "no claim of that name exists") from error
    except ConnectionFailedError as error:
        raise _refused("ApiUnreachable", reference, str(error), "kubelet tries again") from error
    except ValidationError as error:
        raise _refused("ClaimUnreadable", reference, _places(error)) from error
    except (KubeError, ValueError) as error:
        raise _refused("ClaimUnreadable", reference, str(error)) from error
    if claim.metadata.uid != reference.uid:
        limit = f"the claim of that name is another one now: uid `{claim.metadata.uid}`"
        raise _refused("ClaimReplaced", reference, limit)
    return claim


def read_allocation(claim: ClaimView, *, pool: str) -> Allocation:
    """Return what *claim* was given by this driver on this node's *pool*."""
    metadata = claim.metadata
    if claim.status.allocation is None:
        raise RefusedError(
            Refusal(
                code="ClaimNotAllocated",
                field="status.allocation",
                value=f"{metadata.namespace}/{metadata.name}",
                limit="the scheduler has not given devices to this claim",
            )
        )
    devices = claim.status.allocation.devices
    results = [each for each in devices.results if each.driver == names.DRIVER]
    for result in results:
        _check_pool(result, pool)
    configs = [each for each in devices.config if _is_ours(each)]
    classes: dict[str, str] = {}
    for request in claim.spec.devices.requests:
        classes |= request.classes()
    return Allocation(
        uid=metadata.uid,
        namespace=metadata.namespace,
        name=metadata.name,
        resource_version=metadata.resource_version,
        devices=tuple(_device(result, classes) for result in results),
        configs=tuple(_config(each) for each in configs),
        pod_uids=reserved_pods(claim),
        digest=_digest(results, configs),
    )


def reserved_pods(claim: ClaimView) -> frozenset[str]:
    """Return the UIDs of the pods that may use *claim*."""
    return frozenset(each.uid for each in claim.status.reserved_for if each.resource == "pods")


def _device(result: AllocationResultView, classes: Mapping[str, str]) -> AllocatedDevice:
    return AllocatedDevice(
        request=result.request,
        pool=result.pool,
        device=result.device,
        share_id=result.share_id,
        admin=bool(result.admin_access),
        consumed=result.consumed_capacity,
        device_class=classes.get(result.request, ""),
    )


def _is_ours(config: ConfigView) -> bool:
    if config.opaque is None:
        raise RefusedError(
            Refusal(
                code="ConfigKindUnknown",
                field="status.allocation.devices.config",
                value=config.source,
                limit="only opaque configuration is known",
            )
        )
    return config.opaque.driver == names.DRIVER


def _config(config: ConfigView) -> ConfigEntry:
    assert config.opaque is not None  # noqa: S101  # `_is_ours` looked
    return ConfigEntry(
        from_class=config.source == "FromClass",
        requests=config.requests or (),
        parameters=config.opaque.parameters,
    )


def _digest(results: list[AllocationResultView], configs: list[ConfigView]) -> str:
    """Digest what decides, field by field: a later version that reads more must get the same."""
    decisive: list[Any] = [
        (each.request, each.pool, each.device, each.share_id, bool(each.admin_access))
        for each in results
    ]
    decisive += [each.consumed_capacity for each in results]
    for config in configs:
        parameters = config.opaque.parameters if config.opaque else None
        decisive.append((config.source, config.requests or (), parameters))
    return hashlib.sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()


def _check_pool(result: AllocationResultView, pool: str) -> None:
    if result.pool != pool:
        raise RefusedError(
            Refusal(
                code="PoolOfAnotherNode",
                field=f"status.allocation.devices.results[{result.request}].pool",
                value=result.pool,
                limit=f"this node serves pool `{pool}`",
            )
        )


def _places(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(str(part) for part in first["loc"])
    return f"{place or 'object'}: {first['msg']}"


def _refused(code: str, reference: ClaimReference, limit: str, remedy: str = "") -> RefusedError:
    value = f"{reference.namespace}/{reference.name} uid {reference.uid}"
    return RefusedError(Refusal(code=code, field="claim", value=value, limit=limit, remedy=remedy))
