"""Which devices a node has: what it registers, as long as the device plugin behind it is alive.

kubelet tells best whether a plugin is alive, by the allocatable amount of its resource. Where that
is nothing, signs of life count (HAMi v2.10: `CheckHealth` in `pkg/device/devices.go`): a
handshake that we ask for and the plugin has not answered within a minute. HAMi's NVIDIA plugin
answers none, so a node without an allocatable GPU gets a minute after it is first seen and, once it
had some, none at all. A node whose plugin is alive is used whatever its handshake says.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Final

from extender.state.places import Devices
from extender.state.reading import WatchedNode
from extender.synthesis import devices_of_capacity
from hami import annotations, handshake
from hami.backends import Backend
from hami.devices import RegisteredDevice
from hami.reading import Undecodable
from hami.requests import NVIDIA
from hami.vendors import Register
from kube.quantity import QuantityError, parse

_AGAIN: Final = timedelta(seconds=15)


@dataclass(slots=True)
class _Memory:
    """What was seen of one node before."""

    uid: str
    first_seen: datetime
    texts: dict[str, str] = field(default_factory=dict)
    decoded: dict[str, tuple[RegisteredDevice, ...] | Undecodable] = field(default_factory=dict)
    alive_before: frozenset[str] = frozenset()
    """The words of vendors of which something was allocatable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What one look at a node finds."""

    devices: Devices
    problem: str = ""
    """Why devices that it registers cannot be used."""
    look_again: datetime | None = None
    """When the same node may be found otherwise."""
    questions: Mapping[str, str] = field(default_factory=dict)
    """Annotations to write, by which plugins are asked for a sign of life."""


class Registry:
    """Remembers of each node what it needs to tell live plugins from dead ones."""

    def __init__(self, backends: Sequence[Backend]) -> None:
        self._backends = backends
        self._memories: dict[str, _Memory] = {}

    def look(self, node: WatchedNode, now: datetime) -> Found:
        """Return the devices of *node*."""
        memory = self._memories.get(node.name)
        if memory is None or memory.uid != node.uid:
            memory = self._memories[node.name] = _Memory(uid=node.uid, first_seen=now)
        devices: dict[str, tuple[RegisteredDevice, ...]] = {}
        problems, again, questions = [], [], dict[str, str]()
        for backend in self._backends:
            found = _registered(memory, backend, node)
            if isinstance(found, Undecodable):
                problems.append(f"cannot read what it registers for {backend.word}: {found}")
                continue
            if not found:
                continue
            life = _life(memory, backend, node, now, len(found))
            if life.is_alive:
                devices[backend.word] = found
            else:
                problems.append(f"no sign of life of the device plugin for {backend.word}")
            again += [life.look_again] if life.look_again else []
            if life.question:
                questions[backend.handshake_key] = life.question
        return Found(
            devices=devices,
            problem="; ".join(problems),
            look_again=min(again, default=None),
            questions=questions,
        )

    def forget(self, name: str) -> None:
        """Forget a node that is gone."""
        self._memories.pop(name, None)

    def __len__(self) -> int:
        return len(self._memories)


@dataclass(frozen=True, slots=True)
class _Life:
    is_alive: bool
    look_again: datetime | None = None
    question: str | None = None


_ALIVE: Final = _Life(is_alive=True)
_DEAD: Final = _Life(is_alive=False)


def devices_of(node: WatchedNode, backends: Sequence[Backend]) -> Devices:
    """Return what *node* registers that can be read, be it alive or not."""
    found = {each.word: _decoded(each, node) for each in backends}
    return {
        word: devices
        for word, devices in found.items()
        if devices and not isinstance(devices, Undecodable)
    }


@lru_cache(maxsize=256)
def _with(words: frozenset[str], word: str) -> frozenset[str]:
    return words | {word}


def _registered(
    memory: _Memory, backend: Backend, node: WatchedNode
) -> tuple[RegisteredDevice, ...] | Undecodable:
    """Return what is registered, decoded anew only where the text is."""
    if backend.register is Register.CAPACITY:
        return _decoded(backend, node)
    text = node.annotations.get(backend.register_key)
    if text is None:
        memory.texts.pop(backend.word, None)
        return ()
    if memory.texts.get(backend.word) != text:
        memory.decoded[backend.word] = _decoded(backend, node)
        memory.texts[backend.word] = text
    return memory.decoded[backend.word]


def _decoded(backend: Backend, node: WatchedNode) -> tuple[RegisteredDevice, ...] | Undecodable:
    if backend.register is Register.CAPACITY:
        return devices_of_capacity(backend, node.name, node.capacity)
    text = node.annotations.get(backend.register_key)
    if text is None:
        return ()
    return annotations.decode_register(backend, text, node_name=node.name)


def _life(
    memory: _Memory, backend: Backend, node: WatchedNode, now: datetime, registered: int
) -> _Life:
    capacity = amount(node.capacity, backend.count_name)
    other = handshake.other_health(backend, capacity=capacity, registered=registered)
    if other is not None:
        return _ALIVE if other.healthy else _DEAD
    allocatable = amount(node.allocatable, backend.count_name)
    if allocatable > 0:
        if backend.word not in memory.alive_before:
            memory.alive_before = _with(memory.alive_before, backend.word)
        return _ALIVE
    if backend.word == NVIDIA and NVIDIA in memory.alive_before:
        return _DEAD
    value = node.annotations.get(backend.handshake_key, "")
    if not handshake.health(value, now, allocatable).healthy:
        return _DEAD
    question = handshake.to_write(backend, value, now, is_registered=True)
    silent = backend.word == NVIDIA and handshake.read(value).kind is not handshake.Kind.REPORTED
    end = memory.first_seen + handshake.PATIENCE
    if silent and now >= end:
        return _DEAD
    return _Life(is_alive=True, look_again=end if silent else now + _AGAIN, question=question)


def amount(amounts: Mapping[str, str], name: str) -> int:
    """Return a whole amount, 0 where there is none."""
    try:
        return parse(amounts.get(name, "0")).value()
    except QuantityError:
        return 0
