"""`ShareConfig`: what a user may write into the opaque configuration of a claim or DeviceClass.

Kubernetes hands the object through unread (`config[].opaque.parameters`), so every check is made
here, and a second time at prepare although admission made it before. Types are strict: `"1"` and
`true` are no 1, and an unknown field is an error because a typo would otherwise lift a limit.
"""

from difflib import get_close_matches
from json import dumps
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from kube.objects import JsonObject

GROUP_VERSION: Final = "gpuslice.io/v1alpha1"
KIND: Final = "ShareConfig"

CorePolicy = Literal["default", "force", "disable"]
Enforcement = Literal["hami-core", "none"]


class ShareConfig(BaseModel):
    """How a share is enforced; a field that is `None` was not set."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        extra="forbid",
        frozen=True,
        strict=True,
        hide_input_in_errors=True,
    )

    api_version: Literal["gpuslice.io/v1alpha1"]
    kind: Literal["ShareConfig"]
    priority: Annotated[int, Field(ge=0, le=1)] | None = None
    """0 goes before 1 on the same GPU."""
    core_policy: CorePolicy = "default"
    enforcement: Enforcement = "hami-core"
    log_level: Annotated[int, Field(ge=0, le=4)] | None = None


DEFAULT = ShareConfig(apiVersion=GROUP_VERSION, kind=KIND)
"""What holds where nobody wrote a configuration."""

_ALLOWED = {
    "apiVersion": f'"{GROUP_VERSION}"',
    "kind": f'"{KIND}"',
    "priority": "0 or 1",
    "corePolicy": '"default", "force" or "disable"',
    "enforcement": '"hami-core" or "none"',
    "logLevel": "an integer from 0 to 4",
}
_VALUE_MAX = 64


class ShareConfigError(ValueError):
    """The first thing wrong: the *field*, its *value* as JSON and what is *allowed*."""

    def __init__(self, field: str, value: str, allowed: str) -> None:
        super().__init__(field, value, allowed)
        self.field = field
        self.value = value
        self.allowed = allowed

    def __str__(self) -> str:
        return f"{KIND} field `{self.field}` is {self.value}; allowed is {self.allowed}"


def parse(parameters: JsonObject) -> ShareConfig:
    """Return the configuration in opaque *parameters*; raises `ShareConfigError`."""
    try:
        return ShareConfig.model_validate(parameters)
    except ValidationError as error:
        raise _first(error, parameters) from error


def _first(error: ValidationError, parameters: Any) -> ShareConfigError:
    found = error.errors(include_url=False, include_context=False, include_input=False)
    # A misspelt field often leaves the right one missing: the typo is the cause.
    found.sort(key=lambda each: each["type"] != "extra_forbidden")
    if not isinstance(parameters, dict) or not found[0]["loc"]:
        return ShareConfigError("parameters", _shown(parameters), "an object")
    field = str(found[0]["loc"][0])
    value = _shown(parameters[field]) if field in parameters else "missing"
    if field in _ALLOWED:
        return ShareConfigError(field, value, _ALLOWED[field])
    return ShareConfigError(field, "unknown", _suggestion(field))


def _suggestion(field: str) -> str:
    folded = {name.lower(): name for name in _ALLOWED}
    near = get_close_matches(field.replace("_", "").lower(), folded, n=1)
    known = ", ".join(f"`{name}`" for name in _ALLOWED)
    return f"`{folded[near[0]]}` (did you mean it?), among {known}" if near else f"one of {known}"


def _shown(value: Any) -> str:
    try:
        text = dumps(value, ensure_ascii=False, default=str)
    except (RecursionError, ValueError):  # nested too deep, a number too long
        text = f"a {type(value).__name__} that cannot be shown"
    # Half of a surrogate pair has no place in an answer.
    text = text.encode(errors="backslashreplace").decode()
    return text if len(text) <= _VALUE_MAX else text[: _VALUE_MAX - 1] + "…"
