"""A collection whose lists and watches answer what a test has queued."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.fakes.scripted_server import Exchange, Request


def thing(name: str, version: int, value: Any = 0) -> dict[str, Any]:
    """Build an object of a namespace."""
    metadata = {"namespace": "ns", "name": name, "uid": name, "resourceVersion": str(version)}
    return {"metadata": metadata, "value": value}


def listing(version: int, *items: dict[str, Any], following: str = "") -> dict[str, Any]:
    """Build a page."""
    metadata = {"resourceVersion": str(version), **({"continue": following} if following else {})}
    return {"metadata": metadata, "items": list(items)}


def event(kind: str, item: dict[str, Any]) -> dict[str, Any]:
    """Build a watch event."""
    return {"type": kind, "object": item}


@dataclass
class Collection:
    """Hands each list and each watch the next answer that a test has queued."""

    lists: list[Callable[[Exchange], None]] = field(default_factory=list)
    watches: list[Callable[[Exchange], None]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, request: Request, exchange: Exchange) -> None:
        """Answer *request*; with nothing left a watch stays open and a list fails."""
        queued = self.watches if "watch" in request.query else self.lists
        with self.lock:
            answer = queued.pop(0) if queued else None
        if answer is not None:
            answer(exchange)
        elif queued is self.watches:
            exchange.stream()
            exchange.hold()
        else:
            exchange.status(500, "InternalError", "nothing queued")


def pages(value: dict[str, Any]) -> Callable[[Exchange], None]:
    """Answer with one page."""
    return lambda exchange: exchange.json(value)


def stream(*lines: dict[str, Any], then: str = "end") -> Callable[[Exchange], None]:
    """Answer with events, then `end`, `cut` or `hold`."""

    def answer(exchange: Exchange) -> None:
        exchange.stream()
        for line in lines:
            exchange.line(line)
        getattr(exchange, then)()

    return answer
