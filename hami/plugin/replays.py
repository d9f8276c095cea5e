"""What was handed out already, for a kubelet that asks for the same again.

A kubelet that ends after it was answered, and before it noted that, asks again when it is back, and
nothing is to come for that container any more. The kubelet that was answered never asks twice: when
it uses ids again, it is for another container of the pod.
"""

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from hami.containers import ContainerKind
from hami.plugin.claimants import Claimant, Identity
from protos import deviceplugin_v1beta1_pb2 as api

_RECORDS_MAX: Final = 256

Asked = tuple[frozenset[str], ...]
"""The ids of each container of a call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """One call that succeeded."""

    identity: Identity
    places: tuple[int, ...]
    asked: Asked
    init_ids: frozenset[str]
    """Those of init containers that end."""
    answer: api.AllocateResponse
    kubelet: int
    """Which kubelet it was for, in the order in which they came."""


class Replays:
    """Remembers the last calls; all methods may be called from any thread."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._kubelet = 0
        self._records: OrderedDict[tuple[str, tuple[int, ...]], Replay] = OrderedDict()

    def kubelet_changed(self) -> None:
        """Take note that another kubelet asks from now on."""
        with self._guard:
            self._kubelet += 1

    def note(
        self,
        claimant: Claimant,
        places: tuple[int, ...],
        asked: Sequence[Sequence[str]],
        answer: api.AllocateResponse,
    ) -> None:
        """Remember an *answer*."""
        ids = tuple(map(frozenset, asked))
        init_ids = [
            each
            for place, each in zip(places, ids, strict=True)
            if claimant.containers[place].kind is ContainerKind.INIT
        ]
        with self._guard:
            self._records[claimant.identity.uid, places] = Replay(
                identity=claimant.identity,
                places=places,
                asked=ids,
                init_ids=frozenset().union(*init_ids),
                answer=answer,
                kubelet=self._kubelet,
            )
            while len(self._records) > _RECORDS_MAX:
                self._records.popitem(last=False)

    def of_earlier_kubelets(self, asked: Sequence[Sequence[str]]) -> tuple[Replay, ...]:
        """Return what an earlier kubelet was answered to exactly these ids."""
        ids = tuple(map(frozenset, asked))
        with self._guard:
            return tuple(
                each
                for each in self._records.values()
                if each.asked == ids and each.kubelet < self._kubelet
            )

    def reusable(self, uid: str) -> frozenset[str]:
        """Return the ids that kubelet may give again to a later container of the pod *uid*."""
        with self._guard:
            found = [each.init_ids for each in self._records.values() if each.identity.uid == uid]
        return frozenset().union(*found)
