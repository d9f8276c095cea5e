"""Nodes as they come and go, and those to be looked at again although nothing was heard of them."""

import heapq
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Final

from extender.state.places import Places
from extender.state.reading import WatchedNode
from extender.state.registry import Registry
from hami.backends import Backend

_LOOKS_AT_ONCE: Final = 50


class Nodes:
    """Finds the devices of nodes and keeps them in *places*."""

    def __init__(
        self, places: Places, backends: Sequence[Backend], wall: Callable[[], datetime]
    ) -> None:
        self._places, self._wall = places, wall
        self._registry = Registry(backends)
        self._listeners: list[Callable[[str], None]] = []
        self._questions: dict[str, Mapping[str, str]] = {}
        self._looks: list[tuple[datetime, str]] = []

    def on_change(self, listener: Callable[[str], None]) -> None:
        """Have *listener* called with the name of each node that changed or is gone."""
        self._listeners.append(listener)

    def put(self, node: WatchedNode) -> None:
        """Take a new or changed node."""
        found = self._registry.look(node, self._wall())
        if found.questions:
            self._questions[node.name] = found.questions
        else:
            self._questions.pop(node.name, None)
        if found.look_again is not None:
            heapq.heappush(self._looks, (found.look_again, node.name))
        self._places.put_node(node, found.devices, found.problem)
        self._tell(node.name)

    def drop(self, name: str) -> None:
        """Forget a node that is gone."""
        self._registry.forget(name)
        self._questions.pop(name, None)
        self._places.drop_node(name)
        self._tell(name)

    def look_again(self) -> None:
        """Look at nodes again whose plugins may have died in silence; a few at once."""
        now = self._wall()
        for _ in range(_LOOKS_AT_ONCE):
            if not self._looks or self._looks[0][0] > now:
                return
            _, name = heapq.heappop(self._looks)
            place = self._places.get(name)
            if place is not None and place.node is not None:
                self.put(place.node)

    def questions(self) -> Mapping[str, Mapping[str, str]]:
        """Return the annotations by which plugins are to be asked for life, by node."""
        return self._questions

    def _tell(self, name: str) -> None:
        for listener in self._listeners:
            listener(name)
