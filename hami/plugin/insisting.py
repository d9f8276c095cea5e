"""Requests to the API server that kubelet waits for: tried a few times, then given up.

Kubelet admits no other pod meanwhile, so all tries end within seconds. A node or a pod that was
there a moment ago is asked for again even after a 404, since a server that has just come up may
answer anything.
"""

import time
from collections.abc import Callable
from typing import Final, TypeVar

from kube.backoff import Backoff
from kube.errors import ForbiddenError, InvalidError, KubeError, UnauthorizedError

TRIES: Final = 5
"""As HAMi has for the lock."""
_FINAL: Final = (ForbiddenError, UnauthorizedError, InvalidError)
"""No repetition changes these."""
_T = TypeVar("_T")


def insist(call: Callable[[], _T], *, but_not: tuple[type[KubeError], ...] = ()) -> _T:
    """Return what *call* returns; after `TRIES` failures, or one of *but_not*, its error."""
    pause = Backoff(first_s=0.1, max_s=1.6)
    for left in range(TRIES - 1, -1, -1):
        try:
            return call()
        except KubeError as error:
            if not left or isinstance(error, (*_FINAL, *but_not)):
                raise
        time.sleep(pause.next_s())
    raise AssertionError  # The last try has returned or raised.
