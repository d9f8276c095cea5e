"""Slices are published for the Node as it is, also when it is another one than before."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from dra.offer import OfferRules
from dra.publication import Publication
from dra.publisher import Publisher
from dra.sharing import SharingProbe
from dra.situation import SituationSource
from kube import paths
from kube.client import Client
from kube.events import EventRecorder
from tests.dra.gpus import inventory_of, many_gpus
from tests.dra.publishing import NODE, Cluster
from tests.patience import eventually


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Run an API server with a node."""
    running = Cluster()
    running.start()
    yield running
    running.stop()


@contextmanager
def publishing(client: Client) -> Iterator[Publication]:
    """Run a publication of two GPUs as the plugin does."""
    events = EventRecorder(client, component="test", host=NODE)

    def publisher(node_uid: str, situation: SituationSource) -> Publisher:
        return Publisher(
            client=client,
            node_name=NODE,
            node_uid=node_uid,
            probe=SharingProbe(client, node_name=NODE, node_uid=node_uid),
            rules=OfferRules(),
            events=events,
            situation=situation,
        )

    publication = Publication(
        client=client, node_name=NODE, situation=SituationSource(), publisher=publisher
    )
    publication.set_inventory(inventory_of(*many_gpus(2)))
    stopping = threading.Event()
    thread = threading.Thread(target=publication.run, args=(stopping,))
    thread.start()
    try:
        yield publication
    finally:
        stopping.set()
        publication.look_again.set()
        thread.join()
        events.close()


def owners(cluster: Cluster) -> set[str]:
    """Return the UIDs of the Nodes that own slices."""
    return {
        owner["uid"] for each in cluster.slices() for owner in each["metadata"]["ownerReferences"]
    }


def test_slices_belong_to_the_node(cluster: Cluster) -> None:
    """The inventory that was set before the node was read is published and owned by it."""
    client = cluster.client()
    with publishing(client) as publication:
        eventually(lambda: publication.problem() is None)
        assert owners(cluster) == {cluster.uid}
        assert len(publication.devices()) == 2
    client.close()


def test_a_node_that_came_back_owns_the_slices(cluster: Cluster) -> None:
    """After the Node was deleted and made again, its slices name the new UID."""
    client = cluster.client()
    with publishing(client) as publication:
        eventually(lambda: publication.problem() is None)
        cluster.admin.delete(paths.nodes(NODE))
        cluster.admin.create(paths.nodes(), {"metadata": {"name": NODE}})
        publication.look_again.set()
        eventually(lambda: owners(cluster) not in (set(), {cluster.uid}))
        eventually(lambda: publication.problem() is None)
        assert publication.node_uid() in owners(cluster)
    client.close()


def test_a_node_that_cannot_be_read_is_told(cluster: Cluster) -> None:
    """Until the Node is there, nothing is published and the reason is known."""
    cluster.admin.delete(paths.nodes(NODE))
    client = cluster.client()
    with publishing(client) as publication:
        eventually(lambda: "cannot be read" in (publication.problem() or ""))
        assert publication.node_uid() is None
        cluster.admin.create(paths.nodes(), {"metadata": {"name": NODE}})
        eventually(lambda: publication.problem() is None)
    client.close()
