"""A cluster whose control plane is exchanged while its node and our agent run on.

The store stays; API server, controllers and scheduler end together and come back in the order in
which they are updated. Kubelet may be older than the API server but never newer, so it is updated
after them and taken back before them.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.cluster import components, replacing
from tests.cluster.assets import find
from tests.cluster.cluster import RealCluster
from tests.cluster.components import Options
from tests.cluster.scenes.driver import Driver, running_driver
from tests.cluster.scenes.table import GATE
from tests.cluster.up import bring_up, build_and_find

_SHARES_FIRST: Final = "1.36"
_CONTROL_PLANE: Final = ("kube-scheduler", "kube-controller-manager", "kube-apiserver")


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Two control planes, of which only the one *after* keeps what makes a GPU shareable."""

    before: Options
    after: Options


def change_of(minor: str) -> Change:
    """Return the change that brings shares to the release *minor*: its own, or its gate."""
    if minor == _SHARES_FIRST:
        return Change(before=Options(minor="1.35"), after=Options(minor=minor))
    off, on = (Options(minor=minor, gates={GATE: value}) for value in (False, True))
    return Change(before=off, after=on)


class Plane:
    """The cluster, our driver on it, and how to change what is above them."""

    def __init__(self, cluster: RealCluster, driver: Driver, change: Change) -> None:
        self.cluster = cluster
        self.driver = driver
        self.change = change

    def become(self, options: Options) -> None:
        """Replace API server, controllers and scheduler, all at once."""
        cluster = self.cluster
        for name in _CONTROL_PLANE:
            replacing.end(cluster, name)
        cluster.assets, cluster.options = find(options.minor), options
        for make in (components.api_server, components.controller_manager, components.scheduler):
            replacing.replace(cluster, make(cluster.assets, cluster.state, options))

    def replace_kubelet(self, options: Options) -> None:
        """Replace kubelet."""
        node = self.cluster.node_names[0]
        made = components.kubelet(find(options.minor), self.cluster.state, options, node)
        replacing.replace(self.cluster, made)


@contextlib.contextmanager
def running_plane(folder: Path, change: Change) -> Iterator[Plane]:
    """Run a cluster as before the *change*, in *folder*, with our driver for the block."""
    for options in (change.before, change.after):
        build_and_find(options.minor)
    with bring_up(folder, change.before) as cluster, running_driver(cluster) as driver:
        yield Plane(cluster, driver, change)
