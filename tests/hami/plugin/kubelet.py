"""Kubelet's side of the device plugin calls: sockets, lists, and how it chooses ids.

Like kubelet's device manager, it empties its directory when it starts, asks the plugin which ids to
take, takes any others where it is told nothing, and gives the ids of init containers again.
"""

import random
import threading
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Self

import grpc

from protos import deviceplugin_v1beta1_pb2 as api
from protos import deviceplugin_v1beta1_pb2_grpc as api_grpc

DEADLINE_S = 30.0


class Kubelet(api_grpc.RegistrationServicer):
    """One life of a kubelet; use it in `with`, or `start` and `stop` it."""

    def __init__(self, directory: Path, *, seed: int = 0) -> None:
        self.directory = directory
        self.random = random.Random(seed)  # noqa: S311 - no secret
        self.requests: list[api.RegisterRequest] = []
        self.lists: list[api.ListAndWatchResponse] = []
        self.options: api.DevicePluginOptions | None = None
        self.used = set[str]()
        self._news = threading.Condition()
        self._pool = ThreadPoolExecutor(4)
        self._server = grpc.server(self._pool)
        self._channel: grpc.Channel | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()

    def start(self) -> None:
        """Empty the directory and listen."""
        self.directory.mkdir(parents=True, exist_ok=True)
        for path in self.directory.iterdir():
            path.unlink()
        api_grpc.add_RegistrationServicer_to_server(self, self._server)
        self._server.add_insecure_port(f"unix:{self.directory / 'kubelet.sock'}")
        self._server.start()

    def stop(self) -> None:
        """End, and leave what a killed kubelet leaves."""
        path = self.directory / "kubelet.sock"
        with suppress(FileNotFoundError):
            path.rename(path.with_suffix(".kept"))
        self._server.stop(0).wait()
        with suppress(FileNotFoundError):
            path.with_suffix(".kept").rename(path)
        if self._channel is not None:
            self._channel.close()
        self._pool.shutdown()

    def Register(  # noqa: N802
        self,
        request: api.RegisterRequest,
        context: grpc.ServicerContext,  # noqa: ARG002
    ) -> api.Empty:
        """Take the plugin, and call it."""
        assert request.version == "v1beta1"
        before, self._channel = (
            self._channel,
            grpc.insecure_channel(
                f"unix:{self.directory / request.endpoint}",
                options=[("grpc.use_local_subchannel_pool", 1)],
            ),
        )
        if before is not None:
            before.close()
        self._pool.submit(self._listen, self._channel)
        with self._news:
            self.requests.append(request)
            self._news.notify_all()
        return api.Empty()

    def wait_lists(self, count: int) -> api.ListAndWatchResponse:
        """Wait for so many lists altogether, and return the last."""
        with self._news:
            assert self._news.wait_for(lambda: len(self.lists) >= count, DEADLINE_S), self.lists
            return self.lists[-1]

    def wait_registered(self, count: int = 1) -> None:
        """Wait until the plugin has registered so many times."""
        with self._news:
            assert self._news.wait_for(lambda: len(self.requests) >= count, DEADLINE_S)

    def drop(self) -> None:
        """Lose the connection to the plugin."""
        assert self._channel is not None
        self._channel.close()

    def healthy(self) -> list[str]:
        """Return the ids that can be given."""
        devices = self.lists[-1].devices
        return [each.ID for each in devices if each.health == "Healthy"]

    def prefer(
        self, available: Collection[str], count: int, included: Sequence[str] = ()
    ) -> list[str]:
        """Ask which ids to take."""
        asked = api.ContainerPreferredAllocationRequest(
            available_deviceIDs=available, must_include_deviceIDs=included, allocation_size=count
        )
        request = api.PreferredAllocationRequest(container_requests=[asked])
        (found,) = self.plugin.GetPreferredAllocation(request).container_responses
        return list(found.deviceIDs)

    def choose(
        self, count: int, *, allowed: Collection[str] | None = None, reused: Sequence[str] = ()
    ) -> list[str]:
        """Choose ids as kubelet does; *allowed* are those that fit the topology."""
        if len(reused) >= count:
            return list(reused[:count])
        available = [each for each in allowed or self.healthy() if each not in self.used]
        chosen = list(reused)
        for each in self.prefer({*available, *reused}, count, reused):
            if each in available and len(chosen) < count:
                chosen.append(each)
        self.random.shuffle(available)
        chosen += [each for each in available if each not in chosen][: count - len(chosen)]
        assert len(chosen) == count
        return chosen

    def allocate(self, *containers: Sequence[str]) -> list[api.ContainerAllocateResponse]:
        """Ask for *containers* by their ids; they are in use when that succeeds."""
        request = api.AllocateRequest(
            container_requests=[api.ContainerAllocateRequest(devices_ids=ids) for ids in containers]
        )
        answer = self.plugin.Allocate(request)
        self.used.update(*containers)
        return list(answer.container_responses)

    @property
    def plugin(self) -> api_grpc.DevicePluginStub:
        """The plugin that registered last."""
        assert self._channel is not None
        return api_grpc.DevicePluginStub(self._channel)

    def _listen(self, channel: grpc.Channel) -> None:
        stub = api_grpc.DevicePluginStub(channel)
        with suppress(grpc.RpcError, ValueError):
            self.options = stub.GetDevicePluginOptions(api.Empty())
            for each in stub.ListAndWatch(api.Empty()):
                with self._news:
                    self.lists.append(each)
                    self._news.notify_all()
