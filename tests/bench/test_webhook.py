"""G14: what one review of a legacy pod takes over TLS, beside a bare FastAPI handler.

Both servers are processes of their own, asked in turns over connections that stay open; the
client is another thread or eight of this process, which take part in the same CPUs. The program
knows a simulated cluster with GPUs of two sizes. It is asked about pods of which no two ask for the
same, and then about replicas of one pod.
"""

import base64
import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from itertools import count
from pathlib import Path
from typing import Any, Final

import pytest
import trustme

from dra.devices import SharingPolicy, build_devices
from gpu import names
from gpu.model import ComputeMode, Gpu, GpuUuid, Inventory, PciBusId
from kube import paths
from tests.bench.figures import Goal, median, percentile, show
from tests.bench.processes import Process, running
from tests.bench.reviews import NAMESPACE, review
from tests.fakes.api_server import ServerThread, serving
from tests.patience import eventually
from tests.ports import free_port

pytestmark = [pytest.mark.bench, pytest.mark.timeout(600)]

HOST: Final = "127.0.0.1"
ROUNDS: Final = 5
REVIEWS: Final = 1000
PARALLEL: Final = 8
_WARM: Final = 200
_SIZES_MIB: Final = (40960, 81920)
_GOALS: Final = {
    "p50_ms": Goal(goal=0.7, floor=1.15),
    "p99_ms": Goal(goal=2, floor=4.1),
    "cpu_ms": Goal(goal=0.5, floor=1.29),
}
_numbers = count()


@dataclass(slots=True)
class Figures:
    """One value a round."""

    p50_ms: list[float] = field(default_factory=list)
    p99_ms: list[float] = field(default_factory=list)
    cpu_ms: list[float] = field(default_factory=list)
    per_s: list[float] = field(default_factory=list)
    p99_of_8_ms: list[float] = field(default_factory=list)
    cpu_of_8_ms: list[float] = field(default_factory=list)


def test_webhook(tmp_path: Path) -> None:
    """Print times and CPU of a review, one at a time and eight at once, and their ratios."""
    certificates = Certificates(tmp_path)
    with _bare(certificates) as bare, _program(tmp_path, certificates) as program:
        size = len(review(0))
        patched = _first_answer(program, certificates).get("patch")
        note = f"{size} bytes, {len(base64.b64decode(patched)) if patched else 'NO'} bytes of patch"
        measured = {
            "webhook": Asking(program, certificates, _different),
            "webhook_alike": Asking(program, certificates, _alike),
            "bare": Asking(bare, certificates, _different),
        }
        for asking in measured.values():
            _ask(asking, _WARM)
        for _ in range(ROUNDS):
            for asking in measured.values():
                _measure(asking)
        _show(measured["webhook"].figures, "webhook", note, _GOALS)
        _show(measured["webhook_alike"].figures, "webhook_alike", "replicas of one pod", _GOALS)
        _show(measured["bare"].figures, "bare", "", {})
        cpu_ms = {name: median(asking.figures.cpu_ms) for name, asking in measured.items()}
        for name in ("webhook", "webhook_alike"):
            show("G14", f"{name}_by_bare_cpu", cpu_ms[name] / cpu_ms["bare"])
        show("G14", "webhook_rss_mb", program.process.rss_mb())


def _show(figures: Figures, name: str, note: str, goals: dict[str, Goal]) -> None:
    rounds = f"{ROUNDS} x {REVIEWS} reviews{', ' + note if note else ''}"
    for figure in ("p50_ms", "p99_ms", "cpu_ms"):
        show("G14", f"{name}_{figure}", median(getattr(figures, figure)), goals.get(figure), rounds)
    show("G14", f"{name}_8_per_s", median(figures.per_s), note=f"{PARALLEL} connections")
    show("G14", f"{name}_8_p99_ms", median(figures.p99_of_8_ms))
    show("G14", f"{name}_8_cpu_ms", median(figures.cpu_of_8_ms))


class Certificates:
    """A serving certificate in files, and clients that trust it."""

    def __init__(self, folder: Path) -> None:
        self._authority = trustme.CA()
        pair = self._authority.issue_cert(HOST, key_type=trustme.KeyType.ECDSA)
        self.certificate, self.key = folder / "tls.crt", folder / "tls.key"
        pair.cert_chain_pems[0].write_to_path(str(self.certificate))
        pair.private_key_pem.write_to_path(str(self.key))

    def client(self) -> ssl.SSLContext:
        """Return the context of a client."""
        context = ssl.create_default_context()
        self._authority.configure_trust(context)
        return context


@dataclass(frozen=True, slots=True)
class Server:
    """A process that answers on a port."""

    process: Process
    port: int


@dataclass(frozen=True, slots=True)
class Asking:
    """One kind of questions to one server, and what answering took."""

    server: Server
    certificates: Certificates
    question: Callable[[], bytes]
    figures: Figures = field(default_factory=Figures)


def _different() -> bytes:
    return review(next(_numbers))


def _alike() -> bytes:
    return review(next(_numbers), replica_of=0)


class Connection:
    """A connection that stays open, with no more work for the client than necessary."""

    def __init__(self, server: Server, certificates: Certificates) -> None:
        plain = socket.create_connection((HOST, server.port))
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = certificates.client().wrap_socket(plain, server_hostname=HOST)

    def ask(self, body: bytes) -> bytes:
        """Send one review and return the answer's body."""
        head = (
            b"POST /webhook?timeout=10s HTTP/1.1\r\nHost: gate.gpu.svc:443\r\n"
            b"User-Agent: kube-apiserver-admission\r\nAccept: application/json, */*\r\n"
            b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
        )
        self._socket.sendall(head + body)
        received = b""
        while b"\r\n\r\n" not in received:
            received += self._more()
        answered, _, rest = received.partition(b"\r\n\r\n")
        assert answered.startswith(b"HTTP/1.1 200"), answered
        length = int(answered.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        while len(rest) < length:
            rest += self._more()
        return rest

    def close(self) -> None:
        """End it."""
        self._socket.close()

    def _more(self) -> bytes:
        data = self._socket.recv(65536)
        assert data, "the server has closed the connection"
        return data


def _first_answer(server: Server, certificates: Certificates) -> dict[str, Any]:
    connection = Connection(server, certificates)
    answer: dict[str, Any] = json.loads(connection.ask(_different()))["response"]
    connection.close()
    assert answer["allowed"], answer
    return answer


def _ask(asking: Asking, reviews: int, begin: Callable[[], object] = lambda: None) -> list[float]:
    """Ask over one connection, from *begin* on; return the seconds that each answer took."""
    bodies = [asking.question() for _ in range(reviews)]
    connection = Connection(asking.server, asking.certificates)
    begin()
    took_s = []
    for body in bodies:
        began = time.perf_counter()
        connection.ask(body)
        took_s.append(time.perf_counter() - began)
    connection.close()
    return took_s


def _measure(asking: Asking) -> None:
    server, figures = asking.server, asking.figures
    cpu_s = server.process.cpu_s()
    took_s = _ask(asking, REVIEWS)
    figures.cpu_ms.append((server.process.cpu_s() - cpu_s) / REVIEWS * 1000)
    figures.p50_ms.append(percentile(took_s, 50) * 1000)
    figures.p99_ms.append(percentile(took_s, 99) * 1000)
    together = threading.Barrier(PARALLEL + 1)
    each = REVIEWS // PARALLEL * 2
    with ThreadPoolExecutor(PARALLEL) as pool:
        asked = [pool.submit(_ask, asking, each, together.wait) for _ in range(PARALLEL)]
        together.wait()
        began, cpu_s = time.perf_counter(), server.process.cpu_s()
        all_s = [took for one in asked for took in one.result()]
        took = time.perf_counter() - began
    figures.cpu_of_8_ms.append((server.process.cpu_s() - cpu_s) / len(all_s) * 1000)
    figures.per_s.append(len(all_s) / took)
    figures.p99_of_8_ms.append(percentile(all_s, 99) * 1000)


@contextmanager
def _bare(certificates: Certificates) -> Iterator[Server]:
    port = free_port()
    words = [str(port), str(certificates.certificate), str(certificates.key)]
    with running(Process(["tests.bench.bare_handler", *words], {})) as process:
        eventually(lambda: _listens(port))
        yield Server(process, port)


def _listens(port: int) -> bool:
    try:
        socket.create_connection((HOST, port), timeout=1).close()
    except OSError:
        return False
    return True


@contextmanager
def _program(folder: Path, certificates: Certificates) -> Iterator[Server]:
    port, probe_port = free_port(), free_port()
    flags = {
        "namespace": "gpuslice-system",
        "kubeconfig": folder / "kubeconfig",
        "address": HOST,
        "port": port,
        "probe-address": HOST,
        "probe-port": probe_port,
        "tls": "files",
        "tls-cert-file": certificates.certificate,
        "tls-key-file": certificates.key,
        "drain-s": 0,
        "log-level": "warning",
    }
    with serving() as cluster:
        _fill(cluster)
        cluster.call(cluster.server.write_kubeconfig, folder / "kubeconfig")
        words = ["webhook", *(f"--{name}={value}" for name, value in flags.items())]
        with running(Process(words, {})) as process:
            eventually(lambda: _is_ready(probe_port))
            yield Server(process, port)


def _is_ready(port: int) -> bool:
    connection = HTTPConnection(HOST, port, timeout=5)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def _fill(cluster: ServerThread) -> None:
    client = cluster.client()
    for name in (NAMESPACE, "gpuslice-system"):
        client.create(paths.namespaces(), {"metadata": {"name": name}})
    for number, memory_mib in enumerate(_SIZES_MIB):
        client.create(paths.resource_slices(), _slice(f"node-{number}", number, memory_mib))
    client.close()


def _slice(node_name: str, number: int, memory_mib: int) -> dict[str, Any]:
    gpus = tuple(_gpu(number, index, memory_mib) for index in range(8))
    inventory = Inventory(driver_version="580.95.05", cuda_driver_version="13.0", gpus=gpus)
    devices = build_devices(inventory, sharing_kept=True, policy=SharingPolicy()).devices
    pool = {"name": node_name, "generation": 1, "resourceSliceCount": 1}
    return {
        "metadata": {"name": f"{node_name}-gpuslice"},
        "spec": {
            "driver": names.DRIVER,
            "nodeName": node_name,
            "pool": pool,
            "devices": list(devices),
        },
    }


def _gpu(node_number: int, index: int, memory_mib: int) -> Gpu:
    return Gpu(
        uuid=GpuUuid(f"GPU-{node_number:08x}-0000-4000-8000-{index:012x}"),
        pci_bus_id=PciBusId(f"0000:{index + 1:02x}:00.0"),
        minor=index,
        name="NVIDIA A100-SXM4-80GB",
        brand="Nvidia",
        architecture="Ampere",
        memory_mib=memory_mib,
        memory_reserved_mib=0,
        compute_capability="8.0",
        driver_version="580.95.05",
        cuda_driver_version="13.0",
        numa_node=index // 4,
        pcie_root=f"pci0000:{index:02x}",
        mig_enabled=False,
        compute_mode=ComputeMode.DEFAULT,
    )
