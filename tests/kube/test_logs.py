"""What programs write to stderr."""

import json
import subprocess
import sys
from typing import Any

import pytest

from kube.logs import hide_secrets


def run(level: str, statements: str, *, as_json: bool = True) -> str:
    """Return what a program of *statements* logs."""
    program = (
        "import kube.logs\n"
        "import logging, structlog\n"
        f"kube.logs.configure({level!r}, json={as_json})\n"
        "log = structlog.get_logger('dra.prepare')\n" + statements
    )
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == ""
    return done.stderr


def records(output: str) -> list[dict[str, Any]]:
    """Decode JSON lines."""
    return [json.loads(line) for line in output.splitlines()]


def test_events_are_json_lines_with_their_context() -> None:
    """Level, logger, time, ids and what contextvars hold."""
    (record,) = records(
        run(
            "info",
            "structlog.contextvars.bind_contextvars(claim='u-1')\n"
            "log.info('claim prepared', devices=2)\n"
            "log.debug('nothing')",
        )
    )
    assert record.pop("timestamp").endswith("Z")
    assert record == {
        "event": "claim prepared",
        "level": "info",
        "logger": "dra.prepare",
        "claim": "u-1",
        "devices": 2,
    }


def test_records_of_libraries_have_the_same_shape() -> None:
    """The standard library's logging ends in the same lines; chatter is left out."""
    found = records(
        run(
            "info",
            "logging.getLogger('grpc').warning('odd %s', 'thing')\n"
            "logging.getLogger('urllib3.connectionpool').warning('pool is full')",
        )
    )
    assert [(record["event"], record["logger"], record["level"]) for record in found] == [
        ("odd thing", "grpc", "warning")
    ]


def test_an_exception_is_data_without_local_variables() -> None:
    """A traceback names the places, and never shows what the variables held."""
    output = run(
        "info",
        "def work():\n"
        "    password = 'hunter2'\n"
        "    return 1 / (len(password) - 7)\n"
        "try:\n"
        "    work()\n"
        "except ZeroDivisionError:\n"
        "    log.exception('claim failed')",
    )
    (record,) = records(output)
    assert record["exception"][0]["exc_type"] == "ZeroDivisionError"
    assert [frame["name"] for frame in record["exception"][0]["frames"]] == ["<module>", "work"]
    assert "locals" not in output


def test_secrets_are_hidden_wherever_they_stand() -> None:
    """By key, by the look of the value, and in the records of libraries."""
    output = run(
        "info",
        "log.info('asked', token='t0ps3cret', header='Bearer t0ps3cret')\n"
        "logging.getLogger('x').warning('sent %s', 'Authorization: Bearer t0ps3cret')\n"
        "log.info('jwt', note='got eyJhbGciOi.eyJpc3MiOi.c2ln there')",
    )
    assert "t0ps3cret" not in output
    assert "eyJhbGciOi" not in output
    assert "got (hidden) there" in output


def test_text_is_for_people() -> None:
    """Without JSON a line begins with the time and shows tracebacks as Python does."""
    output = run(
        "warning",
        "log.info('quiet')\nlog.warning('told', claim='c')\n"
        "try:\n    1 / 0\nexcept ZeroDivisionError:\n    log.exception('failed')",
        as_json=False,
    )
    assert "quiet" not in output
    assert "told" in output
    assert "claim=c" in output
    assert "Traceback (most recent call last):" in output
    assert "\x1b[" not in output


def test_an_unknown_level_is_an_error() -> None:
    """Settings offer the names that exist."""
    with pytest.raises(subprocess.CalledProcessError):
        run("loud", "")


def test_other_values_stay() -> None:
    """Only secrets change."""
    record = {"event": "e", "count": 3, "names": ["a"], "Authorization": "x", "privateKey": b"k"}
    assert hide_secrets(None, "info", record) == {
        "event": "e",
        "count": 3,
        "names": ["a"],
        "Authorization": "(hidden)",
        "privateKey": "(hidden)",
    }
