"""A control plane for cases: store, API server and scheduler, with the gates that a case names."""

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from kube.client import Client
from tests.cluster import components
from tests.cluster.components import Options
from tests.cluster.up import bring_up_api_server, start_ready

_UNLIMITED: Final = ("--kube-api-qps=5000", "--kube-api-burst=5000")
_APIS: Final[Mapping[str, tuple[str, ...]]] = {"1.36": ("resource.k8s.io/v1beta2",)}
"""What a gate's objects need to be served, by release."""


@contextlib.contextmanager
def control_plane(folder: Path, minor: str, gates: Mapping[str, bool]) -> Iterator[Client]:
    """Run one in *folder* for the block, in whose network the calling thread is then."""
    apis = _APIS.get(minor, ()) if gates else ()
    options = Options(minor=minor, gates=dict(gates), apis=apis, authorization="RBAC")
    with bring_up_api_server(folder, options) as cluster:
        with cluster.network():
            scheduler = components.scheduler(cluster.assets, cluster.state, options)
            start_ready(cluster, replace(scheduler, command=(*scheduler.command, *_UNLIMITED)))
        with cluster.client() as client:
            yield client
