"""Errors made from what servers answer."""

import json
from typing import Any

import pytest

from kube.errors import ApiError, ConnectionFailedError, KubeError, api_error
from tests.fakes.scripted_server import status


def test_all_errors_are_of_one_tree() -> None:
    """A caller may catch one class."""
    assert issubclass(ApiError, KubeError)
    assert issubclass(ConnectionFailedError, KubeError)
    assert not issubclass(ConnectionFailedError, ApiError)


@pytest.mark.parametrize(
    "body",
    [b"", b"null", b"[]", b"3", b'{"kind": "Pod"}', b"\xff\xfe", b"{", b"<html>"],
)
def test_what_is_no_status_is_quoted(body: bytes) -> None:
    """The body itself becomes the message."""
    error = api_error(500, body)
    assert (error.reason, error.message) == ("Unknown", body.decode(errors="replace"))


@pytest.mark.parametrize(
    ("said", "reason", "message"),
    [
        ({"kind": "Status"}, "Unknown", ""),
        ({"kind": "Status", "reason": None, "message": None, "details": None}, "Unknown", ""),
        ({"kind": "Status", "reason": "R", "message": "m", "details": []}, "R", "m"),
    ],
)
def test_a_status_may_lack_anything(said: dict[str, Any], reason: str, message: str) -> None:
    """No field of it is required."""
    error = api_error(404, json.dumps(said).encode())
    assert (error.reason, error.message, error.retry_after_s) == (reason, message, None)


@pytest.mark.parametrize("header", ["", "soon", "-1", "1.5", "Wed, 21 Oct 2026 07:28:00 GMT"])
def test_only_whole_seconds_are_understood(header: str) -> None:
    """Anything else in `Retry-After` is as good as nothing."""
    assert api_error(429, b"", header).retry_after_s is None


def test_the_status_decides_before_the_header() -> None:
    """The API server puts its wish into the details."""
    body = json.dumps(status(429, "TooManyRequests", retryAfterSeconds=4)).encode()
    assert api_error(429, body, "9").retry_after_s == 4
