"""What `/filter` costs besides the decision: in the protocol, as bare ASGI, as a route of FastAPI.

The server is a process of its own with a chooser that names the first node, so the figures are the
price of HTTP, decoding, counting, logging and encoding.
"""

import json
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path

import pytest

pytestmark = pytest.mark.bench

_CALLS = 400
_SERVER = Path(__file__).with_name("filter_route_server.py")


@contextmanager
def _server(kind: str) -> Iterator[tuple[int, int]]:
    with subprocess.Popen(  # noqa: S603 - our own program
        [sys.executable, str(_SERVER), kind],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline()), process.pid
        finally:
            process.terminate()


def _body(names: int) -> bytes:
    pod = {
        "metadata": {
            "namespace": "default",
            "name": "p",
            "uid": "u",
            "managedFields": [{"manager": "m", "fieldsV1": {"f:x": {}}, "note": "x" * 900}] * 6,
        },
        "spec": {"containers": [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]},
    }
    listed = [f"node-{each:05}.example.internal" for each in range(names)]
    random.Random(1).shuffle(listed)  # noqa: S311 - no secret
    return json.dumps({"Pod": pod, "Nodes": None, "NodeNames": listed}).encode()


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


@pytest.mark.parametrize("names", [420, 5000])
def test_three_ways_to_answer(names: int) -> None:
    """All answer the same; what each takes is printed."""
    body = _body(names)
    for kind in ("quick", "bare", "fastapi"):
        with _server(kind) as (port, pid):
            connection = HTTPConnection("127.0.0.1", port)
            took = []
            for _ in range(_CALLS + 50):
                began = time.perf_counter()
                connection.request("POST", "/filter", body)
                answer = json.loads(connection.getresponse().read())
                took.append(time.perf_counter() - began)
                assert answer["NodeNames"], answer
            before = _cpu_s(pid)
            for _ in range(_CALLS):
                connection.request("POST", "/filter", body)
                connection.getresponse().read()
            cpu_ms = (_cpu_s(pid) - before) / _CALLS * 1000
            connection.close()
        quick = sorted(took[50:])
        print(
            f"\n/filter, {names} names, {kind}: p50 {statistics.median(quick) * 1000:.2f} ms, "
            f"p99 {quick[int(len(quick) * 0.99)] * 1000:.2f} ms, CPU {cpu_ms:.2f} ms"
        )
