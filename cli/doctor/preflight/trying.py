"""Makes claim and pod on one node, waits, judges, and takes both away whatever happens."""

import contextlib
import secrets
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Final

from cli.doctor.cluster.view import Cluster
from cli.doctor.model import Status, Verdict, failed, ok, warning
from cli.doctor.preflight.choosing import scheduler_name
from cli.doctor.preflight.objects import MARKERS, Image, Way, claim, pod
from cli.doctor.preflight.reasons import explained
from cli.doctor.preflight.waiting import Outcome, Watcher
from kube import paths
from kube.client import Client
from kube.errors import KubeError, NotFoundError

_POLL_S: Final = 0.25
_GRACE_S: Final = 60
"""How much longer than we wait the pod may run where nobody is left to delete it."""
_PENDING: Final = "make room, or see `gpuslice explain pod` for more"


@dataclass(slots=True, kw_only=True)
class Try:
    """One preflight on one node."""

    cluster: Cluster
    kubeconfig: Path | None
    node: str
    way: Way
    image: Image
    timeout_s: float
    clear_s: float
    """How long to wait until what was deleted is gone."""
    name: str = field(default_factory=lambda: f"gpuslice-preflight-{secrets.token_hex(4)}")

    def run(self) -> Verdict:
        """Return what came of it; raises `KubeError` where nothing could be tried.

        What could not be deleted is in the verdict, or in a note of whatever is raised.
        """
        try:
            verdict = self._try()
        except BaseException as error:
            for each in self._clear():
                error.add_note(f"left behind: {each}")
            raise
        left = self._clear()
        if not left:
            return verdict
        details = (*verdict.details, *(f"left behind: {each}" for each in left))
        remedy = f"delete by hand: {', '.join(left)}"
        if verdict.status is Status.OK:
            return warning(verdict.seen, remedy, *details)
        return failed(verdict.seen, f"{verdict.remedy}; {remedy}", *details)

    @property
    def _client(self) -> Client:
        return self.cluster.client

    @property
    def _paths(self) -> tuple[str, ...]:
        namespace = self.cluster.trial_namespace
        found = [paths.pods(namespace, self.name)]
        if self.way is not Way.LIMITS:
            found.append(paths.resource_claims(namespace, self.name))
        return tuple(found)

    def _try(self) -> Verdict:
        namespace = self.cluster.trial_namespace
        if self.way is not Way.LIMITS:
            path = paths.resource_claims(namespace)
            self._client.create(path, claim(self.name, namespace, self.way))
        asking = pod(
            self.name,
            namespace,
            node=self.node,
            way=self.way,
            image=self.image,
            deadline_s=int(self.timeout_s) + _GRACE_S,
        )
        if self.way is Way.LIMITS and (scheduler := scheduler_name(self.cluster)):
            asking["spec"]["schedulerName"] = scheduler
        self._client.create(paths.pods(namespace), asking)
        watcher = Watcher(self._client, namespace, self.name, timeout_s=self.timeout_s)
        return self._judged(watcher.wait())

    def _judged(self, outcome: Outcome) -> Verdict:
        what = f"a pod with {_WORDS[self.way]}"
        if outcome.is_pending:
            lines = explained(self.kubeconfig, self.cluster.trial_namespace, self.name)
            return failed(f"{what} got no place: {outcome.problem}", _PENDING, *lines)
        if outcome.told is None:
            remedy = "see the events of the node's agent and kubelet's log"
            return failed(f"{what} did not tell what it got: {outcome.problem}", remedy)
        key, value = MARKERS[self.way]
        got = outcome.told.get(key)
        if got == value:
            return ok(f"{what} ran and has {key}={value}")
        remedy = "see runtime-cdi on the node: the runtime has not applied the claim's CDI spec"
        if got is None:
            return failed(f"{what} ran without {key}", remedy)
        remedy = "see runtime and nvidia-runtime on the node: something else sets this variable"
        return failed(f"{what} ran with {key}={got[:40]}, not {value}", remedy)

    def _clear(self) -> list[str]:
        """Delete all that may be there and wait for its end; return what is left."""
        with _undisturbed():
            return self._cleared()

    def _cleared(self) -> list[str]:
        deadline_s = time.monotonic() + self.clear_s
        left = list(self._paths)
        asked: set[str] = set()
        while True:
            left = [path for path in left if not self._gone(path, asked)]
            if not left or time.monotonic() >= deadline_s:
                kinds = {"pods": "pod", "resourceclaims": "resourceclaim"}
                namespace = self.cluster.trial_namespace
                return [f"{kinds[path.split('/')[-2]]} {namespace}/{self.name}" for path in left]
            time.sleep(_POLL_S)

    def _gone(self, path: str, asked: set[str]) -> bool:
        """Delete, once it was understood only look; a failure is tried again."""
        if path not in asked and self._answered(lambda: self._client.delete(path)) is not False:
            asked.add(path)
        return self._answered(lambda: self._client.get(path)) is None

    @staticmethod
    def _answered(request: Callable[[], object]) -> bool | None:
        """Tell whether *request* was carried out, `None` where its object is not there."""
        try:
            request()
        except NotFoundError:
            return None
        except KubeError:
            return False
        return True


_WORDS: Final = {
    Way.SHARE: "a share of a GPU",
    Way.WHOLE: "a whole GPU",
    Way.MIG: "a MIG device",
    Way.LIMITS: "limits for a GPU",
}


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Ignore an impatient second Ctrl-C: what is being deleted would stay."""
    before = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    with contextlib.suppress(ValueError):  # signals belong to the main thread
        for each in before:
            signal.signal(each, signal.SIG_IGN)
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):
            for each, handler in before.items():
                signal.signal(each, handler)


@contextlib.contextmanager
def ended_by_signals() -> Iterator[None]:
    """Have SIGTERM end the block as Ctrl-C does."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.getsignal(signal.SIGTERM)
    with contextlib.suppress(ValueError):
        signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):
            signal.signal(signal.SIGTERM, before)
