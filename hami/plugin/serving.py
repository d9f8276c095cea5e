"""The plugin's socket, and that kubelet knows of it.

A kubelet that starts removes all sockets from its directory, makes its own anew and knows nobody
(kubernetes: `pkg/kubelet/cm/devicemanager`). So the plugin serves at a socket that is really there,
and registers whenever kubelet's is another one than that at which it has registered. The order is
fixed: gRPC removes the path when a server ends, even if another one is bound to it by then, so the
old server has ended before the new one begins.
"""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple, Protocol

import grpc
import structlog

from hami.plugin.directorywatch import DirectoryWatch
from hami.plugin.service import STREAMS_MAX, PluginServicer
from kube.backoff import Backoff
from protos import deviceplugin_v1beta1_pb2 as api
from protos import deviceplugin_v1beta1_pb2_grpc as api_grpc

log = structlog.get_logger(__name__)

VERSION: Final = "v1beta1"
KUBELET_SOCKET: Final = "kubelet.sock"
LOOK_S: Final = 5.0
"""How long a change may go unseen where inotify does not help."""
AGAIN_S: Final = 2.0
"""How long to leave undone what earlier calls could not do."""
REGISTER_S: Final = 5.0
LISTEN_S: Final = 10.0
_SLICE_S: Final = 0.1
GRACE_S: Final = 5.0
_CALL_THREADS: Final = 8
_OPTIONS: Final = (
    # A new connection each time: a shared one that once failed waits for seconds by itself.
    ("grpc.use_local_subchannel_pool", 1),
)


class Owners(Protocol):
    """Says who else serves the resource."""

    def before_serving(self) -> str | None:
        """Return a sentence about it while this plugin does not serve."""

    def while_serving(self) -> str | None:
        """Return one while it does."""


class Calls(Protocol):
    """Whoever answers kubelet."""

    def kubelet_changed(self) -> None:
        """Take note that another kubelet may ask from now on."""

    def see_to(self) -> bool:
        """Do what earlier calls left undone; tell whether to come again soon."""


class _Identity(NamedTuple):
    """One file, and no later one of its name."""

    device: int
    inode: int
    changed_ns: int


class NotServedError(Exception):
    """Kubelet does not know the plugin; the text says why."""


def socket_path(kubelet_root: Path, resource: str) -> Path:
    """Return where the plugin for *resource* serves; the name is nobody else's."""
    return kubelet_root / "device-plugins" / f"gpuslice-{resource.rpartition('/')[2]}.sock"


class PluginServing:
    """Serves and registers for as long as its thread is in `run`."""

    def __init__(
        self,
        path: Path,
        *,
        resource: str,
        servicer: PluginServicer,
        calls: Calls,
        owners: Owners,
        look_s: float = LOOK_S,
    ) -> None:
        """Prepare to serve *resource* at *path*, beside kubelet's socket."""
        self._path, self._resource, self._servicer = path, resource, servicer
        self._calls, self._owners, self._look_s = calls, owners, look_s
        self._kubelet = path.with_name(KUBELET_SOCKET)
        self._watch = DirectoryWatch(path.parent)
        self._stopping = threading.Event()
        self._server: grpc.Server | None = None
        self._bound: _Identity | None = None
        self._registered: _Identity | None = None
        self._problem: str | None = "not registered with kubelet yet"

    def problem(self) -> str | None:
        """Return why kubelet does not have the plugin's devices, `None` when it does."""
        return self._problem or self._servicer.problem()

    def run(self) -> None:
        """Serve until `stop`."""
        backoff = Backoff(first_s=0.2, max_s=self._look_s)
        while not self._stopping.is_set():
            try:
                pause_s = self._look()
                backoff.reset()
            except NotServedError as error:
                self._note(str(error))
                pause_s = backoff.next_s()
            except Exception as error:  # the top of the thread's loop
                log.exception("serving failed")
                self._note(f"internal error: {error!r}")
                pause_s = backoff.next_s()
            if self._calls.see_to():
                pause_s = min(pause_s, AGAIN_S)
            self._watch.wait(pause_s)
        self._end()
        self._watch.close()

    def stop(self) -> None:
        """Have `run` end; calls in flight may end first."""
        self._stopping.set()
        self._watch.wake()

    def look(self) -> None:
        """Have `run` look at once, as when what the node offers is known at last."""
        self._watch.wake()

    def _look(self) -> float:
        """See to it that kubelet knows the plugin; return after how long to look again."""
        if self._server is not None and (who := self._owners.while_serving()):
            self._end()
            self._note(who)
            return self._look_s
        kubelet = _identity(self._kubelet)
        if kubelet is None:
            self._note(f"there is no {self._kubelet}: is kubelet's root directory right?")
            return self._look_s
        if self._server is None or _identity(self._path) != self._bound:
            self._end()
            if not self._servicer.is_known:
                self._note("what the node offers is not known yet")
                return self._look_s
            if who := self._owners.before_serving():
                self._note(who)
                return self._look_s
            self._begin()
        if kubelet != self._registered or not self._servicer.is_listened:
            self._register()
        self._note(None)
        return self._look_s

    def _begin(self) -> None:
        pool = ThreadPoolExecutor(_CALL_THREADS + STREAMS_MAX, thread_name_prefix="device-plugin")
        server = grpc.server(pool)
        api_grpc.add_DevicePluginServicer_to_server(self._servicer, server)
        try:
            server.add_insecure_port(f"unix:{self._path}")
        except RuntimeError as error:
            message = f"{self._path} cannot be served: {error}"
            raise NotServedError(message) from error
        server.start()
        self._server, self._bound = server, _identity(self._path)

    def _register(self) -> None:
        # Whether it is another kubelet shows too late, if it has been answered by then.
        self._calls.kubelet_changed()
        self._registered = None
        request = api.RegisterRequest(
            version=VERSION,
            endpoint=self._path.name,
            resource_name=self._resource,
            options=api.DevicePluginOptions(get_preferred_allocation_available=True),
        )
        try:
            with grpc.insecure_channel(f"unix:{self._kubelet}", options=_OPTIONS) as channel:
                api_grpc.RegistrationStub(channel).Register(request, timeout=REGISTER_S)
        except grpc.RpcError as error:
            message = f"kubelet does not take the plugin: {_said(error)}"
            raise NotServedError(message) from error
        self._wait_listened()
        # As it is now: it may have come after the last look, and is not to be told twice. A later
        # one would have removed the socket of the plugin.
        self._registered = _identity(self._kubelet)
        log.info("registered with kubelet", resource=self._resource, socket=self._path.name)

    def _wait_listened(self) -> None:
        """Wait until kubelet asks what the plugin has, which it does at once."""
        end_s = time.monotonic() + LISTEN_S
        while not self._servicer.wait_listened(_SLICE_S):
            if _identity(self._path) != self._bound:
                # A kubelet that was starting removed it after it had been made.
                message = "the plugin's socket was removed while kubelet took it"
                raise NotServedError(message)
            if self._stopping.is_set() or time.monotonic() > end_s:
                message = "kubelet took the plugin and does not ask what it has"
                raise NotServedError(message)

    def _end(self) -> None:
        """Stop serving; wait until the path is free."""
        if self._server is not None:
            self._servicer.hang_up()
            self._server.stop(GRACE_S).wait()
        self._server = self._bound = self._registered = None

    def _note(self, problem: str | None) -> None:
        if problem != self._problem:
            self._problem = problem
            if problem is not None:
                log.warning("plugin not served", reason=problem)


def _identity(path: Path) -> _Identity | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return _Identity(found.st_dev, found.st_ino, found.st_ctime_ns)


def _said(error: grpc.RpcError) -> str:
    details = getattr(error, "details", None)
    return str(details() if callable(details) else error)
