"""Writes a decision on its pod and binds it, each until it is known whether that has happened.

A request without an answer may have been carried out, or may be yet: nobody can call it back. So
both hold for one state of the pod alone, by its UID and resource version. The pod is annotated only
as it was when its annotations were last read, whoever has written these, and bound only as it was
annotated. Whatever changes it then makes a late request fail, such as taking the annotations back,
or the try of another leader. The API server compares the version of a Binding too (kubernetes:
`assignPod` in `pkg/registry/core/pod/storage/storage.go`).
"""

from collections.abc import Callable
from typing import Final

from extender.binding_attempt import Attempt
from extender.calls import Calls
from kube.errors import ApiError, ConflictError, KubeError, ServerError
from kube.objects import JsonObject

_TRIES: Final = 3


class NotOursError(Exception):
    """The pod is not to be bound by this try any more; the text says why."""


def may_be_carried_out(error: KubeError) -> bool:
    """Tell whether a request may have had its effect though it failed."""
    return isinstance(error, ServerError) or not isinstance(error, ApiError)


class Writer:
    """Used in the loop; both methods raise `KubeError` and `NotOursError`."""

    def __init__(self, calls: Calls, leads: Callable[[], bool]) -> None:
        """Nothing is asked for once *leads* says no."""
        self._calls, self._leads = calls, leads

    async def annotate(self, tried: Attempt) -> JsonObject:
        """Return the pod with the decision on it, and no other key of schedulers."""
        metadata, failure = tried.first(), None
        for _ in range(_TRIES):
            self._check_lead()
            try:
                pod = await self._calls.change_pod(tried.namespace, tried.name, metadata)
            except KubeError as error:
                tried.may_be_written |= may_be_carried_out(error)
                failure = _doubtful(error)
            else:
                tried.may_be_written = True
                return pod
            pod = await self._calls.raw_pod(tried.namespace, tried.name)
            if tried.has_marked(pod):
                return pod
            _check(tried, pod)
            metadata = tried.again(pod)
        raise failure or AssertionError

    async def bind(self, tried: Attempt, pod: JsonObject) -> None:
        """Bind *pod* as it was annotated."""
        failure = None
        for _ in range(_TRIES):
            self._check_lead()
            try:
                await self._calls.bind(pod, tried.node)
            except KubeError as error:
                failure = _doubtful(error)
            else:
                return
            pod = await self._calls.raw_pod(tried.namespace, tried.name)
            if tried.has_bound(pod):
                return
            _check(tried, pod)
            if not tried.has_marked(pod):
                message = "somebody else has annotated it"
                raise NotOursError(message)
        raise failure or AssertionError

    def _check_lead(self) -> None:
        if not self._leads():
            message = "another scheduler leads"
            raise NotOursError(message)


def _doubtful(error: KubeError) -> KubeError:
    """Return *error* if the pod has to be looked at; raises it where it leaves no doubt."""
    if isinstance(error, ConflictError) or may_be_carried_out(error):
        return error
    raise error


def _check(tried: Attempt, pod: JsonObject) -> None:
    if not tried.is_of(pod):
        message = f"it is another one by now: {pod['metadata'].get('uid')}, not {tried.uid}"
        raise NotOursError(message)
    if node := pod["spec"].get("nodeName"):
        message = f"it is bound to node {node} already"
        raise NotOursError(message)
