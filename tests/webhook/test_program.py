"""The program as a process: how it starts, serves, and ends."""

import signal
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Final

import pytest
import trustme

from tests.patience import eventually
from tests.ports import free_port
from tests.webhook.serving import HOST, Connection, review_body

_ROOT: Final = Path(__file__).parents[2]
_NOBODY: Final = """\
apiVersion: v1
kind: Config
current-context: a
contexts: [{name: a, context: {cluster: a, user: a}}]
clusters: [{name: a, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: a, user: {token: x}}]
"""


class Running:
    """A program that runs, with mounted certificates and without an API server."""

    def __init__(self, folder: Path, module: str, *flags: str) -> None:
        self.authority = trustme.CA()
        pair = self.authority.issue_cert(HOST)
        pair.private_key_pem.write_to_path(str(folder / "tls.key"))
        pair.cert_chain_pems[0].write_to_path(str(folder / "tls.crt"))
        (folder / "kubeconfig").write_text(_NOBODY)
        self.port, self.probe_port = free_port(), free_port()
        options = {
            "namespace": "gpu",
            "kubeconfig": folder / "kubeconfig",
            "address": HOST,
            "port": self.port,
            "probe-address": HOST,
            "probe-port": self.probe_port,
            "tls": "files",
            "tls-cert-file": folder / "tls.crt",
            "tls-key-file": folder / "tls.key",
            "drain-s": 0,
        }
        words = [f"--{name}={value}" for name, value in options.items()]
        self.output = folder / "output"
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(  # noqa: S603 - our own modules
                [sys.executable, "-m", module, *words, *flags],
                cwd=_ROOT,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def connect(self) -> Connection:
        """Return a connection of its own."""
        context = ssl.create_default_context()
        self.authority.configure_trust(context)
        return Connection(self.port, context)

    def probe(self, path: str) -> tuple[int, str]:
        """Return status and text of a probe; 0 where nobody answers."""
        connection = HTTPConnection(HOST, self.probe_port, timeout=10)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read().decode()
        except OSError:
            return 0, ""
        finally:
            connection.close()

    def wait_ready(self) -> None:
        """Wait until it says that it is ready."""
        eventually(lambda: self.probe("/readyz")[0] == 200 or self.process.poll() is not None)
        assert self.process.poll() is None, self.text()

    def text(self) -> str:
        """Return what it has said."""
        return self.output.read_text()

    def wait_text(self, text: str) -> None:
        """Wait until it says *text*."""
        eventually(lambda: text in self.text())


@contextmanager
def running(
    folder: Path, *flags: str, module: str = "tests.webhook.odd_program"
) -> Iterator[Running]:
    """Run a program for the block."""
    program = Running(folder, module, *flags)
    try:
        yield program
    finally:
        program.process.kill()
        program.process.wait()


def test_it_is_ready_when_all_parts_are(tmp_path: Path) -> None:
    """Probes and metrics are served beside, without TLS; reviews are served with it."""
    with running(tmp_path) as program:
        program.wait_ready()
        assert program.probe("/readyz")[1].splitlines() == [
            "loop: ok",
            "server: ok",
            "certificate: ok",
            "view: ok",
        ]
        with program.connect() as connection:
            assert connection.post("/webhook", review_body()).response["allowed"]
        assert program.probe("/healthz") == (200, "loop: ok\n")
        assert 'reviews_total{path="/webhook",result="allowed"} 1.0' in program.probe("/metrics")[1]
        assert "background started" in program.text()


def test_the_first_signal_lets_requests_finish(tmp_path: Path) -> None:
    """It is not ready any more, serves on while it drains, and ends with status 0."""
    with running(tmp_path, "--drain-s=1.5") as program:
        program.wait_ready()
        with program.connect() as slow, program.connect() as later:
            slow.http.request("POST", "/webhook", review_body(name="slow"))
            program.process.send_signal(signal.SIGTERM)
            eventually(lambda: "server: failed: it is about to end" in program.probe("/readyz")[1])
            answer = later.post("/webhook", review_body())
            assert answer.response["allowed"]
            assert answer.headers["connection"] == "close"
            assert slow.answer().response["allowed"]
        assert program.process.wait(30) == 0
        assert program.text().index("webhook draining") < program.text().index("background stopped")
        assert "Traceback" not in program.text()


def test_a_review_that_runs_at_the_end_is_answered(tmp_path: Path) -> None:
    """Without any drain time the answer still comes."""
    with running(tmp_path) as program:
        program.wait_ready()
        with program.connect() as slow:
            slow.http.request("POST", "/webhook", review_body(name="slow"))
            eventually(lambda: "in_flight 1.0" in program.probe("/metrics")[1])
            program.process.send_signal(signal.SIGTERM)
            assert slow.answer().response["allowed"]
        assert program.process.wait(30) == 0


def test_the_second_signal_ends_it_at_once(tmp_path: Path) -> None:
    """Whoever waits no longer does not have to."""
    with running(tmp_path, "--drain-s=600") as program:
        program.wait_ready()
        program.process.send_signal(signal.SIGTERM)
        program.wait_text("webhook draining")
        program.process.send_signal(signal.SIGTERM)
        assert program.process.wait(30) == 128 + signal.SIGTERM


def test_a_call_that_hangs_does_not_keep_it(tmp_path: Path) -> None:
    """Its review is ended by the time budget, and the thread by the end of the process."""
    with running(tmp_path, "--time-budget-s=0.3") as program:
        program.wait_ready()
        with program.connect() as connection:
            response = connection.post("/webhook", review_body(name="blocked")).response
            assert "TimeBudgetExceeded" in response["status"]["message"]
        program.process.send_signal(signal.SIGTERM)
        assert program.process.wait(30) == 0


def test_a_service_that_fails_ends_it(tmp_path: Path) -> None:
    """Kubelet starts it anew; the log says what it was."""
    with running(tmp_path, "--scheduler-name=broken", "--log-level=info") as program:
        assert program.process.wait(30) == 1
        assert "service broke" in program.text()
        assert "background stopped" in program.text()


def test_it_waits_for_a_certificate_that_is_not_there_yet(tmp_path: Path) -> None:
    """It says what is missing, and takes what comes."""
    key = tmp_path / "later.key"
    with running(tmp_path, f"--tls-key-file={key}") as program:
        eventually(lambda: "later.key cannot be read" in program.probe("/readyz")[1])
        assert program.probe("/healthz")[0] == 200
        key.write_bytes((tmp_path / "tls.key").read_bytes())
        program.wait_ready()
        with program.connect() as connection:
            assert connection.post("/webhook", review_body()).response["allowed"]


def test_it_ends_while_it_waits_for_a_certificate(tmp_path: Path) -> None:
    """Nothing was served, so there is nothing to drain."""
    with running(tmp_path, "--tls-key-file=/nowhere/tls.key", "--drain-s=600") as program:
        program.wait_text("certificate not taken")
        program.process.send_signal(signal.SIGINT)
        assert program.process.wait(30) == 0


@pytest.mark.parametrize(
    ("flags", "status", "said"),
    [
        ("--port=99999", 2, "--port: 99999: input should be less than or equal to 65535"),
        ("--client-ca-file=/ca --no-quota", 1, "--client-ca-file: /ca: No such file"),
        ("--client-ca-file=/ca", 1, "--client-ca-file needs --no-quota"),
        ("--address=192.0.2.1", 1, "reviews cannot be served on 192.0.2.1"),
        ("--probe-address=192.0.2.1", 1, "probes cannot be served on 192.0.2.1 port"),
    ],
)
def test_a_wrong_setting_is_one_line(tmp_path: Path, flags: str, status: int, said: str) -> None:
    """It names the setting, without a traceback."""
    with running(tmp_path, *flags.split(), module="webhook") as program:
        assert program.process.wait(30) == status
        (line,) = program.text().splitlines()
        assert said in line


def test_it_is_a_word_of_the_command() -> None:
    """`gpuslice webhook` is the same program."""
    ran = subprocess.run(
        [sys.executable, "-m", "cli.main", "webhook", "--help"],
        capture_output=True,
        check=True,
        text=True,
    )
    assert "usage: gpuslice-webhook" in ran.stdout
    assert "--tls-secret" in ran.stdout
