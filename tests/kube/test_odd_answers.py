"""Answers that a server does not give, but a broken proxy before it may."""

import pytest

from kube.errors import api_error
from kube.objects import ObjectKey
from kube.reflector import Reflector
from tests.fuzz.watch_lines import StreamClient
from tests.patience import eventually

DEEP = b"[" * 100_000
LIST = b'{"metadata": {"resourceVersion": "1"}, "items": [%s]}'


def an_item(name: bytes) -> bytes:
    """Return an object in JSON whose name is *name*."""
    return b'{"metadata": {"name": %s, "resourceVersion": "1"}}' % name


@pytest.mark.parametrize(
    "line",
    [DEEP, b'{"type": "ERROR", "object": {"code": Infinity, "metadata": {}}}'],
    ids=["deep", "endless"],
)
def test_a_line_that_cannot_be_read_does_not_end_the_watch(line: bytes) -> None:
    """The thread goes on, and takes what comes after it."""
    client = StreamClient(LIST % an_item(b'"first"'), line + b"\n")
    reflector = Reflector(client, "/pods", params={}, decode=lambda item: item)
    reflector.start()
    try:
        eventually(lambda: ObjectKey("", "first") in reflector.items())
        client.answer = LIST % an_item(b'"second"')
        client.stream = b'{"type": "ERROR", "object": {"code": 410}}\n'
        eventually(lambda: ObjectKey("", "second") in reflector.items())
    finally:
        reflector.stop()


@pytest.mark.parametrize("name", [b"7", b"null", b"[]", b"{}", b"-Infinity"])
def test_an_object_whose_name_is_no_text_is_skipped(name: bytes) -> None:
    """The others of its list are taken."""
    client = StreamClient(LIST % b", ".join([an_item(name), an_item(b'"good"')]), b"")
    reflector = Reflector(client, "/pods", params={}, decode=lambda item: item)
    reflector._list_and_watch()
    assert reflector.items().keys() == {ObjectKey("", "good")}


@pytest.mark.parametrize(
    ("body", "header"),
    [
        (b"", "9" * 5000),
        (b'{"kind": "Status", "details": {"retryAfterSeconds": %s}}' % (b"9" * 300), None),
    ],
)
def test_no_wait_is_longer_than_an_hour(body: bytes, header: str | None) -> None:
    """A clock that is asked to wait for ages fails, and its thread with it."""
    assert api_error(429, body, header).retry_after_s == 3600


def test_a_failure_too_deep_to_read_is_told_as_text() -> None:
    """Its beginning is what can be said of it."""
    assert api_error(500, DEEP).message.startswith("[[[[")
