"""What is known of the Node while it changes, goes and comes back."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dra.nodewatch import NodeWatch
from kube import paths
from kube.client import MERGE_PATCH
from tests.dra.publishing import NODE, Cluster, cluster
from tests.patience import eventually


@contextmanager
def watching(where: Cluster) -> Iterator[tuple[NodeWatch, threading.Event]]:
    """Watch the Node of a cluster."""
    client, changed = where.client("agent"), threading.Event()
    watch = NodeWatch(client=client, node_name=NODE, on_change=changed.set)
    watch.start()
    try:
        assert watch.wait_synced(20)
        yield watch, changed
    finally:
        watch.stop()
        client.close()


def offer(where: Cluster, **status: Any) -> None:
    """Change the Node's status as kubelet does."""
    path = paths.nodes(NODE, "status")
    where.admin.patch(path, {"status": status}, content_type=MERGE_PATCH)


def test_a_change_is_told() -> None:
    """With what another driver's plugin offers."""
    with cluster() as where, watching(where) as (watch, changed):
        node = watch.node()
        assert node is not None
        assert node["metadata"]["uid"] == where.uid
        changed.clear()
        offer(where, allocatable={"nvidia.com/gpu": "8"})
        assert changed.wait(20)
        node = watch.node()
        assert node is not None
        assert node["status"]["allocatable"]["nvidia.com/gpu"] == "8"


def test_other_nodes_are_not_read() -> None:
    """A large cluster sends this agent nothing of them."""
    with cluster() as where:
        other = {"metadata": {"name": "node-2"}}
        where.admin.create(paths.nodes(), other)
        with watching(where) as (watch, changed):
            changed.clear()
            for path in (paths.nodes("node-2"), paths.nodes(NODE)):
                body = {"metadata": {"labels": {"a": "b"}}}
                where.admin.patch(path, body, content_type=MERGE_PATCH)
            assert changed.wait(20)
            eventually(lambda: (watch.node() or {})["metadata"].get("labels") == {"a": "b"})
            assert len(watch._reflector.items()) == 1


def test_images_are_not_kept() -> None:
    """There may be more of them than of all the rest."""
    with cluster() as where:
        offer(where, images=[{"names": ["busybox"], "sizeBytes": 1}], phase="Running")
        with watching(where) as (watch, _changed):
            node = watch.node()
            assert node is not None
            assert node["status"]["phase"] == "Running"
            assert "images" not in node["status"]
            said = json.loads(where.admin.get(paths.nodes(NODE)))
            assert said["status"]["images"]
            assert "managedFields" not in node["metadata"]


def test_a_node_that_is_gone_is_none() -> None:
    """It may come back under another UID."""
    with cluster() as where, watching(where) as (watch, _changed):
        where.admin.delete(paths.nodes(NODE))
        eventually(lambda: watch.node() is None)
        again = json.loads(where.admin.create(paths.nodes(), {"metadata": {"name": NODE}}))
        uid = again["metadata"]["uid"]
        eventually(lambda: (watch.node() or {}).get("metadata", {}).get("uid") == uid)
