"""Why something was refused, in a form that a user can act on and a test can match.

Every refusal of this project names a stable *code*, the *field* and *value* that caused it, the
*limit* that it met and the *remedy*; the sentence is made from these, so no caller words its own.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """One reason; *limit* and *remedy* may be empty where there is nothing to say."""

    code: str
    """CamelCase and stable, such as `MemoryExceedsGpu`: tests and alerts match on it."""
    field: str
    """Where the value stands, as a path in the object the user wrote or can look at."""
    value: str
    limit: str = ""
    remedy: str = ""

    def __str__(self) -> str:
        said = f"{self.code}: {self.field}: `{self.value}`"
        parts = [said, self.limit, self.remedy]
        return "; ".join(part for part in parts if part)


class RefusedError(Exception):
    """Carries a `Refusal` up to the edge that answers the caller."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal)
        self.refusal = refusal

    def __str__(self) -> str:
        return str(self.refusal)
