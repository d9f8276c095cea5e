"""One call of an extender over HTTP, with the errors in kube-scheduler's words.

The messages are structs of Go without names for JSON, so keys are capitalised; a reader in Go
takes them in any case, and so does this one (kubernetes: pkg/scheduler/extender.go,
staging/src/k8s.io/kube-scheduler/extender/v1/types.go).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import aiohttp

from sim.scheduler.errors import SchedulerError

if TYPE_CHECKING:
    from kube.objects import JsonObject
    from sim.scheduler.extender_policy import ExtenderPolicy


class ExtenderError(SchedulerError):
    """An extender that gave no answer, or the answer that something is wrong."""


async def ask(policy: ExtenderPolicy, verb: str, said: JsonObject) -> Any:
    """Send *said* and return the answer, a list or an object; raises `ExtenderError`."""
    url = f"{policy.url_prefix}/{verb}"
    timeout = aiohttp.ClientTimeout(total=policy.http_timeout_s)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.post(
                url, json=said, ssl=not policy.insecure, allow_redirects=False
            ) as response,
        ):
            if response.status != 200:
                message = f"failed {verb} with extender at URL {url}, code {response.status}"
                raise ExtenderError(message)
            body = await response.read()
    except TimeoutError as error:
        message = (
            f'Post "{url}": context deadline exceeded'
            " (Client.Timeout exceeded while awaiting headers)"
        )
        raise ExtenderError(message) from error
    except aiohttp.ClientError as error:
        message = f'Post "{url}": {error}'
        raise ExtenderError(message) from error
    return _decoded(body)


def field(answer: Any, name: str) -> Any:
    """Return a field of an answer, whichever letters of its name are capital."""
    if not isinstance(answer, dict):
        message = f"json: cannot unmarshal {type(answer).__name__} into an extender's result"
        raise ExtenderError(message)
    if name in answer:
        return answer[name]
    wanted = name.lower()
    return next((value for key, value in answer.items() if key.lower() == wanted), None)


def _decoded(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError as error:
        message = f"invalid answer of an extender: {error}"
        raise ExtenderError(message) from error
