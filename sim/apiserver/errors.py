"""Answers of the API server that are not the object asked for.

Every one of them is a `Status` object on the wire (apimachinery: meta/v1 `Status`), and the
in-process client raises the same value, so that both sorts of client see one truth::

    StatusError           code, reason, message, causes
      GoneError           410: the resourceVersion asked for has left the history
      NoPageError         404: a path that belongs to no API, answered with a text
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sim.apiserver.json_values import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """One field that is at fault, as `Status.details.causes` carries it."""

    reason: str
    """`FieldValueInvalid`, `FieldValueRequired`, `FieldValueForbidden` and the like."""
    field: str
    message: str


class StatusError(Exception):
    """A request that was refused; *code* is the HTTP status, *reason* the machine's word."""

    generic = False
    """The details are there and empty."""
    retry_after_s = 0
    warnings: tuple[str, ...] = ()
    """What was wrong besides, such as fields that were dropped before."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        causes: tuple[Cause, ...] = (),
        kind: str = "",
        name: str = "",
    ) -> None:
        super().__init__(code, reason, message)
        self.code = code
        self.reason = reason
        self.message = message
        self.causes = causes
        self.kind = kind
        self.name = name

    def __str__(self) -> str:
        return f"{self.code} {self.reason}: {self.message}"

    def status(self) -> JsonObject:
        """Return the `Status` object that says this on the wire."""
        details: JsonObject = {}
        if self.name:
            details["name"] = self.name
        kind, _, group = self.kind.partition(".")
        if group:
            details["group"] = group
        if kind:
            details["kind"] = kind
        if self.causes:
            details["causes"] = [
                {"message": cause.message}
                | ({"reason": cause.reason} if cause.reason else {})
                | ({"field": cause.field} if cause.field else {})
                for cause in self.causes
            ]
        if self.retry_after_s:
            details["retryAfterSeconds"] = self.retry_after_s
        status: JsonObject = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "code": self.code,
        }
        if self.reason:
            status["reason"] = self.reason
        if details or self.generic:
            status["details"] = details
        return status


class GoneError(StatusError):
    """The history no longer reaches back to the asked resourceVersion: list again."""

    def __init__(self, message: str) -> None:
        super().__init__(410, "Expired", message)


class NoPageError(StatusError):
    """The path lies outside of everything that is served."""

    def __init__(self) -> None:
        super().__init__(404, "NotFound", "404 page not found")


def no_such_path() -> StatusError:
    """Return the answer to a path of an API that has no such resource."""
    message = "the server could not find the requested resource"
    return generic(404, "NotFound", message)


def generic(code: int, reason: str, message: str) -> StatusError:
    """Return an answer that the real server gives before it knows what is asked for."""
    error = StatusError(code, reason, message)
    error.generic = True
    return error


def bad_request(message: str) -> StatusError:
    """Return the answer to a request that makes no sense whatever is stored."""
    return StatusError(400, "BadRequest", message)


def forbidden(plural: str, name: str, why: str) -> StatusError:
    """Return the answer of an admission rule."""
    message = f'{plural} "{name}" is forbidden: {why}'
    return StatusError(403, "Forbidden", message, kind=plural, name=name)


def not_found(plural: str, name: str) -> StatusError:
    """Return the answer to a name that is not there."""
    return StatusError(404, "NotFound", f'{plural} "{name}" not found', kind=plural, name=name)


def already_exists(plural: str, name: str, *, in_deletion: bool = False) -> StatusError:
    """Return the answer to a second creation of one name."""
    message = f'{plural} "{name}" already exists'
    if in_deletion:
        message = f"object is being deleted: {message}"
    return StatusError(409, "AlreadyExists", message, kind=plural, name=name)


def conflict(plural: str, name: str, why: str) -> StatusError:
    """Return the answer to a writer that looked at an older object."""
    message = f'Operation cannot be fulfilled on {plural} "{name}": {why}'
    return StatusError(409, "Conflict", message, kind=plural, name=name)


def invalid(kind: str, name: str, causes: tuple[Cause, ...]) -> StatusError:
    """Return the answer to an object that breaks the rules of its *kind*."""
    told = ", ".join(f"{cause.field}: {cause.message}" for cause in causes)
    if len(causes) > 1:
        told = f"[{told}]"
    message = f'{kind} "{name}" is invalid: {told}'
    return StatusError(422, "Invalid", message, causes=causes, kind=kind, name=name)


def other_identity(plural: str, uid: str, metadata: JsonObject) -> str:
    """Return the words of the store for a write to an object of another *uid*."""
    place = "/".join(filter(None, (plural, metadata.get("namespace"), metadata["name"])))
    return (
        f"StorageError: invalid object, Code: 4, Key: /registry/{place}, ResourceVersion: 0, "
        f"AdditionalErrorMsg: Precondition failed: UID in precondition: {uid}, "
        f"UID in object meta: {metadata['uid']}"
    )
