"""What a program takes from its command line and its environment.

Flags go before environment variables. Kubernetes puts variables of its own for every Service of
a namespace into each pod: next to a Service `gpuslice-probe` there is a `GPUSLICE_PROBE_PORT`
that holds a URL. Pods of ours set `enableServiceLinks: false`.
"""

import sys
from collections.abc import Sequence
from typing import Annotated, Any, Final, Self

from pydantic import BeforeValidator, ValidationError
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict, SettingsError

ENVIRONMENT_PREFIX: Final = "GPUSLICE_"


def _split(value: Any) -> Any:
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, (list, tuple)):
        return value
    return tuple(part.strip() for text in texts for part in str(text).split(",") if part.strip())


Names = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split)]
"""A field of names: a flag given several times, or one text with commas."""


class BaseProgramSettings(BaseSettings):
    """Fields become kebab-case flags and `GPUSLICE_*` variables; give each a description."""

    model_config = SettingsConfigDict(
        env_prefix=ENVIRONMENT_PREFIX,
        cli_kebab_case=True,
        cli_implicit_flags=True,
        cli_avoid_json=True,
        cli_hide_none_type=True,
        extra="forbid",
        frozen=True,
    )

    @classmethod
    def from_arguments(cls, arguments: Sequence[str], *, program: str) -> Self:
        """Read flags and environment; on a mistake, name it on stderr and exit with status 2."""
        options: dict[str, Any] = {
            "_cli_parse_args": list(arguments),
            "_cli_prog_name": program,
        }
        try:
            return cls(**options)
        except ValidationError as error:
            mistakes = [_sentence(mistake) for mistake in error.errors(include_url=False)]
        except SettingsError as error:
            mistakes = [str(error)]
        for mistake in mistakes:
            sys.stderr.write(f"{program}: {mistake}\n")
        raise SystemExit(2)


def _sentence(mistake: Any) -> str:
    path = ".".join(str(part) for part in mistake["loc"])
    flag = "--" + path.replace("_", "-") if path else "settings"
    allowed = mistake["msg"][:1].lower() + mistake["msg"][1:]
    if mistake["type"] == "missing":
        return f"{flag}: not given: {allowed}"
    return f"{flag}: {mistake['input']}: {allowed}"
