"""Where the objects come from: a cluster, or what kubectl has printed of one."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from cli.explain.dump import Dump, is_kubeconfig
from cli.explain.errors import InputError
from cli.explain.live import Live
from kube import logs
from kube.config import load_config
from kube.draversions import VersionedClient
from kube.errors import KubeError
from kube.objects import JsonObject
from sim.explain.shapes import fault_of
from sim.explain.snapshot import Snapshot, snapshot_of

_DEFAULT = "default"
_QUOTA = "ResourceQuota"
_TIMEOUT_S = 60.0
_WHOLE = ("Node", "DeviceClass", "ResourceSlice")
"""Kinds of which a cluster with devices has some: without them a dump is likely to lack them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What was read, and what is to be said about it."""

    snapshot: Snapshot
    namespace: str
    version: str
    notes: tuple[str, ...]
    claim_notes: tuple[str, ...] = ()
    """What matters only where claims decide."""
    quotas: tuple[JsonObject, ...] = ()
    seen_at: datetime
    """When it was so, as far as that can be told."""


def read(source: Path | None, namespace: str | None) -> Found:
    """Read the objects around *namespace* from *source*; raises `InputError`."""
    if source is None or is_kubeconfig(source):
        return _cluster(source, namespace)
    dump = Dump(source)
    snapshot = snapshot_of(dump.objects)
    if not snapshot.nodes:
        message = f"{source} holds no Nodes: add what `kubectl get nodes -o json` prints"
        raise InputError(message)
    kinds = {str(item.get("kind")) for item in dump.objects}
    quotas, spoiled = quotas_of(dump.objects)
    missing = [f"{source} holds no {kind}" for kind in _WHOLE if kind not in kinds]
    return Found(
        snapshot=snapshot,
        namespace=namespace or _DEFAULT,
        version=dump.version,
        notes=(*dump.notes, *spoiled),
        claim_notes=tuple(missing),
        quotas=quotas,
        seen_at=datetime.fromtimestamp(dump.modified_s, UTC),
    )


def _cluster(kubeconfig: Path | None, namespace: str | None) -> Found:
    logs.configure("error", json=False, for_good=False)
    try:
        config = load_config(str(kubeconfig) if kubeconfig else None)
        client = VersionedClient(config, user_agent="gpuslice-explain", timeout_s=_TIMEOUT_S)
    except KubeError as error:
        raise InputError(str(error)) from error
    chosen = namespace or config.namespace or _DEFAULT
    live = Live(client, chosen)
    client.close()
    quotas, spoiled = quotas_of(live.objects)
    return Found(
        snapshot=snapshot_of(live.objects),
        namespace=chosen,
        version=live.version,
        notes=(*live.notes, *spoiled),
        claim_notes=tuple(live.claim_notes),
        quotas=quotas,
        seen_at=datetime.now(UTC),
    )


def quotas_of(objects: Iterable[JsonObject]) -> tuple[tuple[JsonObject, ...], list[str]]:
    """Return the ResourceQuotas that can be read, and what is to be said of others.

    A manifest without a namespace is one of `default`.
    """
    found, spoiled = [], []
    for item in objects:
        if item.get("kind") != _QUOTA:
            continue
        metadata = {"namespace": _DEFAULT, **item["metadata"]}
        fault = fault_of({**item, "metadata": metadata}, _QUOTA)
        if fault:
            spoiled.append(f"{_QUOTA} {metadata.get('name')} is left out: {fault}")
        else:
            found.append({**item, "metadata": metadata})
    return tuple(found), spoiled
