"""What the API server keeps, asked by objects that are created as dry runs and never exist.

The server drops the fields of feature gates that are off without a word, and versions do not tell,
because gates can be switched. A field without which an object would not be valid makes a refusal.

The class of the trial claims is nobody's, so that no webhook or policy about ours has a say, and
the quantities are canonical, so that what comes back can be compared with what was sent.
"""

import json
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from cli.doctor.cluster.view import Cluster
from dra.sharing import Sharing, SharingProbe, SharingVerdict
from kube import paths
from kube.errors import ApiError, InvalidError, KubeError, ServerError
from kube.objects import JsonObject
from kube.trial import would_keep

DRY_RUN: Final = {"dryRun": "All"}
CLASS: Final = "trial.gpuslice.example"
_NODE: Final = "gpuslice-trial"
_NOBODY: Final = "00000000-0000-0000-0000-000000000000"
_V1: Final = "resource.k8s.io/v1"


class NotToldError(KubeError):
    """The server gave an answer from which nothing follows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """An object to create, and where in the answer the field is that matters."""

    path: str
    body: JsonObject
    field: tuple[str | int, ...]


def keeps(cluster: Cluster, trial: Trial) -> bool:
    """Tell whether the server keeps the field of *trial*; raises `KubeError`."""
    return cluster.once(f"trial {trial.path} {trial.field}", lambda: _keeps(cluster, trial))


def _keeps(cluster: Cluster, trial: Trial) -> bool:
    try:
        answer = would_keep(cluster.client, trial.path, trial.body)
    except InvalidError:
        # Without the field that was dropped there is too little left.
        return False
    except ServerError as error:
        if "webhook" in error.message:
            raise _nobody_asked(error) from error
        raise
    return bool(_at(answer, trial.field) == _at(trial.body, trial.field))


def sharing(cluster: Cluster) -> SharingVerdict:
    """Return what the server keeps of a slice of ours, asked as the node agent asks it."""

    def ask() -> SharingVerdict:
        verdict = SharingProbe(cluster.client, node_name=_NODE, node_uid=_NOBODY).probe()
        if verdict.state is Sharing.UNKNOWN:
            raise NotToldError(verdict.detail)
        return verdict

    return cluster.once("sharing", ask)


def claim_amount(namespace: str) -> Trial:
    """Return a claim for a part of a device."""
    amount = {"requests": {"memory": "1Gi"}}
    request = {"deviceClassName": CLASS, "capacity": amount}
    return _claim(
        namespace,
        [{"name": "gpu", "exactly": request}],
        ("spec", "devices", "requests", 0, "exactly", "capacity", "requests", "memory"),
    )


def claim_alternatives(namespace: str) -> Trial:
    """Return a claim for the first of several that there is."""
    options = [{"name": name, "deviceClassName": CLASS} for name in ("one", "two")]
    return _claim(
        namespace,
        [{"name": "gpu", "firstAvailable": options}],
        ("spec", "devices", "requests", 0, "firstAvailable", 1, "name"),
    )


def slice_counters() -> Trial:
    """Return a slice with counters that devices share."""
    counters = {"name": "gpu-0", "counters": {"memory": {"value": "1Gi"}}}
    spec = {
        "driver": CLASS,
        "nodeName": _NODE,
        "pool": {"name": _NODE, "generation": 1, "resourceSliceCount": 2},
        "sharedCounters": [counters],
    }
    body = _object("ResourceSlice", spec)
    field = ("spec", "sharedCounters", 0, "counters", "memory", "value")
    return Trial(path=paths.resource_slices(), body=body, field=field)


def class_resource() -> Trial:
    """Return a class that pods can ask for as an extended resource."""
    body = _object("DeviceClass", {"extendedResourceName": f"{CLASS}/gpu"})
    return Trial(path=paths.device_classes(), body=body, field=("spec", "extendedResourceName"))


def status_update(claims: Sequence[JsonObject]) -> Trial | None:
    """Return the status of the first allocated claim with one more entry; `None` without one."""
    for claim in claims:
        allocation = (claim.get("status") or {}).get("allocation") or {}
        results = (allocation.get("devices") or {}).get("results") or ()
        if results and not (claim.get("status") or {}).get("devices"):
            keys = ("driver", "pool", "device", "shareID")
            entry = {key: results[0][key] for key in keys if key in results[0]}
            status = {**claim["status"], "devices": [entry]}
            metadata = claim["metadata"]
            path = paths.resource_claims(metadata["namespace"], metadata["name"], "status")
            body = {"apiVersion": _V1, "kind": "ResourceClaim", **claim, "status": status}
            return Trial(path=path, body=body, field=("status", "devices", 0, "device"))
    return None


def keeps_update(cluster: Cluster, trial: Trial) -> bool:
    """Tell the same of an object that exists, by an update that is a dry run."""
    answer = json.loads(cluster.client.replace(trial.path, trial.body, DRY_RUN))
    return bool(_at(answer, trial.field) == _at(trial.body, trial.field))


def _claim(namespace: str, requests: list[JsonObject], field: tuple[str | int, ...]) -> Trial:
    body = _object("ResourceClaim", {"devices": {"requests": requests}})
    body["metadata"]["namespace"] = namespace
    return Trial(path=paths.resource_claims(namespace), body=body, field=field)


def _object(kind: str, spec: JsonObject) -> JsonObject:
    name = f"{_NODE}-{secrets.token_hex(4)}"
    return {"apiVersion": _V1, "kind": kind, "metadata": {"name": name}, "spec": spec}


def _at(value: Any, field: Sequence[str | int]) -> Any:
    for step in field:
        try:
            value = value[step]
        except (LookupError, TypeError):
            return None
    return value


def _nobody_asked(error: ApiError) -> NotToldError:
    return NotToldError(f"a webhook of the cluster stopped the question: {error.message}")


TrialMaker = Callable[[Cluster], Trial]
