"""Kubelet's calls over an API server that answers oddly, with every part of a prepare in between.

What matters to kubelet: each claim gets an answer, one that is bad has a text that says why, and
the next claim of the same call is prepared.
"""

import json
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any, Final, cast

from dra.metrics import Metrics
from dra.prepare import Preparer
from dra.service import DraService
from protos import dra_v1_pb2, dra_v1beta1_pb2
from tests.dra.builders import UID, a_claim, a_gpu, a_result
from tests.dra.nodes import UID_2, Node, Reference
from tests.fakes.claim_server import ClaimServer
from tests.fuzz import node
from tests.fuzz.checkpoints import directory_in_memory
from tests.fuzz.mutation import spoiled_text
from tests.fuzz.running import expect

if TYPE_CHECKING:
    import grpc

_STATUSES: Final = (None, None, None, None, None, None, 401, 403, 404, 409, 410, 429, 500, 503)
_FREE: Final = a_gpu(4)
"""Nobody else is given this one, so whoever asks for it gets it."""
_HEALTHY: Final = a_claim(a_result(_FREE, "1Gi"), name="healthy", uid=UID_2)


class _Context:
    """As much of a call's context as the service asks for."""

    def is_active(self) -> bool:
        """Tell that kubelet waits."""
        return True


_CONTEXT: Final = cast("grpc.ServicerContext", _Context())


def _as_it_is(preparer: Preparer) -> Preparer:
    return preparer


@dataclass(slots=True)
class PrepareCalls:
    """Claims near valid ones, over HTTP."""

    around: Callable[[Preparer], Preparer] = field(default=_as_it_is)
    name: str = "prepare-calls"
    weight: int = 1
    _held: ExitStack = field(default_factory=ExitStack)
    _server: ClaimServer | None = None
    _service: DraService | None = None

    def make(self, rng: Random) -> dict[str, Any]:
        """Return the answer's body and the status of the server."""
        body = spoiled_text(rng, rng.choice(node.CLAIMS), donor=rng.choice(node.CLAIMS))
        # Another claim each time, for one that was released is not prepared again.
        uid = f"{UID[:24]}{rng.getrandbits(48):012x}"
        body = body.replace(UID.encode(), uid.encode())
        old = rng.random() < 0.3
        return {"uid": uid, "body": body, "status": rng.choice(_STATUSES), "old": old}

    def check(self, sample: dict[str, Any]) -> bool:
        """Answer for both claims, and release them."""
        service, server = self._opened()
        messages: Any = dra_v1beta1_pb2 if sample.get("old") else dra_v1_pb2
        server.claims["team-a/claim"] = sample.get("body", b"")
        server.answer_status = sample.get("status")
        uid = str(sample.get("uid", UID))
        odd, healthy = Reference(uid=uid), Reference(uid=UID_2, name="healthy")
        first = service.prepare(messages, [odd], _CONTEXT).claims[uid]
        server.answer_status = None
        both = service.prepare(messages, [odd, healthy], _CONTEXT).claims
        for entry in (first, *both.values()):
            expect("InternalError" not in entry.error, f"not ours: {entry.error[:300]}")
        expect(both.keys() == {uid, UID_2}, "a claim has no answer")
        expect(len(both[UID_2].devices) == 1, f"the next claim fails: {both[UID_2].error}")
        released = service.unprepare(messages, [odd, healthy]).claims
        expect(not any(entry.error for entry in released.values()), "a claim is not released")
        # Its version changes, as that of every claim does that is used again.
        self._put_healthy(server)
        return bool(both[uid].devices)

    def close(self) -> None:
        """End server and node."""
        self._held.close()
        self._server = self._service = None

    def _opened(self) -> tuple[DraService, ClaimServer]:
        if self._server is None or self._service is None:
            directory = self._held.enter_context(directory_in_memory())
            self._server = self._held.enter_context(ClaimServer())
            here = Node(directory, self._server, gpus=(*node.GPUS, _FREE))
            self._held.callback(here.close)
            preparer = self.around(here.preparer)
            self._service = DraService(
                preparer, Metrics(), prepared=lambda _record: None, released=lambda: None
            )
            self._put_healthy(self._server)
        return self._service, self._server

    def _put_healthy(self, server: ClaimServer) -> None:
        number = server.request_count + 1000
        metadata = _HEALTHY["metadata"] | {"resourceVersion": f"{number}"}
        server.claims["team-a/healthy"] = json.dumps(_HEALTHY | {"metadata": metadata}).encode()
