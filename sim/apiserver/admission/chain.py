"""All webhooks that want to see a write, and what becomes of it.

Those that change come first, one after the other; then those that judge, side by side. A refusal
is answered with the webhook's own Status behind the words of the server (apiserver:
pkg/admission/plugin/webhook/errors/statuserror.go). A webhook whose `reinvocationPolicy` is
`IfNeeded` is asked once again when another one has changed the object after it.
"""

from __future__ import annotations

import asyncio
import base64
import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import jsonpatch
import structlog

from sim.apiserver.admission.calling import CallFailedError, call
from sim.apiserver.admission.matching import MUTATING, VALIDATING, configured, is_wanted
from sim.apiserver.errors import Cause, StatusError, bad_request
from sim.apiserver.json_values import copy_json

if TYPE_CHECKING:
    from sim.apiserver.admission.asked import Asked
    from sim.apiserver.json_values import JsonObject
    from sim.apiserver.registry import Registry

log = structlog.get_logger(__name__)

_HARMLESS = ("None", "NoneOnDryRun")


@dataclass(slots=True)
class Reinvocations:
    """Which webhooks, by place, are to be asked again: those asked before the last change."""

    invoked: set[int] = field(default_factory=set)
    due: set[int] = field(default_factory=set)

    def changed(self) -> None:
        """Note that the object is another one than those before have seen."""
        self.due |= self.invoked
        self.invoked = set()


class Chain:
    """The webhooks for one write; *warnings* are those that they have given so far."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self.warnings: list[str] = []

    async def mutate(self, asked: Asked) -> JsonObject | None:
        """Return the object as webhooks have changed it, None for one that is to be deleted."""
        hooks = configured(self._registry, MUTATING)
        again = Reinvocations()
        first = await self._round(hooks, asked, again)
        if first.new == asked.new:
            return first.new
        return (await self._round(hooks, first, again, only_again=True)).new

    async def _round(
        self,
        hooks: list[JsonObject],
        asked: Asked,
        again: Reinvocations,
        *,
        only_again: bool = False,
    ) -> Asked:
        for place, hook in enumerate(hooks):
            if not is_wanted(self._registry, hook, asked):
                continue
            if only_again and place not in again.due:
                continue
            response = await self._answer(hook, asked)
            if asked.new is not None and response.get("patch"):
                new = self._patched(hook, asked.new, response)
                if new != asked.new:
                    again.changed()
                asked = replace(asked, new=new)
            if hook.get("reinvocationPolicy") == "IfNeeded":
                again.invoked.add(place)
        return asked

    async def judge(self, asked: Asked) -> None:
        """Raise what the first webhook that refuses the write says."""
        every = configured(self._registry, VALIDATING)
        hooks = [hook for hook in every if is_wanted(self._registry, hook, asked)]
        answers = (self._answer(hook, asked) for hook in hooks)
        for answer in await asyncio.gather(*answers, return_exceptions=True):
            if isinstance(answer, BaseException):
                raise answer

    async def _answer(self, hook: JsonObject, asked: Asked) -> JsonObject:
        """Return a response that allows the write, empty when a failure is to be ignored."""
        name = hook["name"]
        if asked.write.dry_run and hook.get("sideEffects") not in _HARMLESS:
            message = f'admission webhook "{name}" does not support dry run'
            raise self._refusal(bad_request(message))
        try:
            response = await call(hook, asked.review())
        except CallFailedError as error:
            if hook.get("failurePolicy") == "Ignore":
                log.info("webhook failure ignored", webhook=name, reason=str(error))
                return {}
            raise self._refusal(_failure(f'failed calling webhook "{name}": {error}')) from error
        self.warnings.extend(response.get("warnings") or ())
        if not response.get("allowed"):
            raise self._refusal(_denial(name, response.get("status") or {}))
        return response

    def _patched(self, hook: JsonObject, obj: JsonObject, response: JsonObject) -> JsonObject:
        try:
            patch = json.loads(base64.b64decode(response["patch"]))
            new: JsonObject = jsonpatch.apply_patch(copy_json(obj), patch)
        except (ValueError, jsonpatch.JsonPatchException, jsonpatch.JsonPointerException) as error:
            if hook.get("failurePolicy") == "Ignore":
                return obj
            raise self._refusal(_failure(str(error))) from error
        return new

    def _refusal(self, error: StatusError) -> StatusError:
        error.warnings = tuple(self.warnings)
        return error


def has_webhooks(registry: Registry) -> bool:
    """Tell whether any webhook is configured."""
    return any(configured(registry, plural) for plural in (MUTATING, VALIDATING))


def _failure(why: str) -> StatusError:
    message = f"Internal error occurred: {why}"
    causes = (Cause(reason="", field="", message=why),)
    return StatusError(500, "InternalError", message, causes=causes)


def _denial(name: str, status: JsonObject) -> StatusError:
    said = status.get("message") or status.get("reason")
    message = f'admission webhook "{name}" denied the request'
    message += f": {said}" if said else " without explanation"
    details = status.get("details") or {}
    kind, group = details.get("kind", ""), details.get("group", "")
    return StatusError(
        max(status.get("code") or 0, 400),
        status.get("reason", ""),
        message,
        kind=f"{kind}.{group}" if group else kind,
        name=details.get("name", ""),
        causes=tuple(
            Cause(
                reason=each.get("reason", ""),
                field=each.get("field", ""),
                message=each.get("message", ""),
            )
            for each in details.get("causes") or ()
        ),
    )
