"""Board profiles: what a model of GPU is, for the simulated driver.

Each `profiles/<name>.yaml` describes one model as a real driver reports it. MIG tables say what
was seen on hardware; they are test data, because drivers change them.
"""

from functools import cache
from pathlib import Path

import yaml
from pydantic import BaseModel, ConfigDict, Field, model_validator

_PROFILES = Path(__file__).with_name("profiles")


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Memory(_Strict):
    """A GPU's own memory."""

    total_mib: int = Field(gt=0)
    reserved_mib: int = Field(ge=0)


class Engines(_Strict):
    """Fixed-function engines of a GPU instance."""

    # `copy` alone would hide a method of pydantic's models.
    copy_engines: int = Field(alias="copy", ge=0)
    decoder: int = Field(ge=0)
    encoder: int = Field(ge=0)
    jpeg: int = Field(ge=0)
    ofa: int = Field(ge=0)


class MigProfile(_Strict):
    """One shape of GPU instance; *starts* are memory slices it may begin at."""

    name: str
    id: int = Field(ge=0)
    enum: int = Field(ge=0)
    """NVML's profile enum, the argument of the profile calls; *id* is what they answer."""
    slices: int = Field(gt=0)
    """Compute slices; a shape may hold more memory slices than compute slices."""
    memory_slices: int = Field(gt=0)
    memory_mib: int = Field(gt=0)
    multiprocessors: int = Field(gt=0)
    engines: Engines
    instances: int = Field(gt=0)
    starts: list[int]


class MigTable(_Strict):
    """All shapes of a board and the memory slices that they share."""

    memory_slices: int = Field(gt=0)
    profiles: list[MigProfile]

    @model_validator(mode="after")
    def _fit(self) -> "MigTable":
        for profile in self.profiles:
            last = max(profile.starts, default=0) + profile.memory_slices
            if not profile.starts or last > self.memory_slices:
                message = f"{profile.name}: placements leave the board's slices"
                raise ValueError(message)
        return self

    def named(self, name: str) -> MigProfile | None:
        """Return the profile called *name*."""
        return next((each for each in self.profiles if each.name == name), None)


class Board(_Strict):
    """One model of GPU; *brand* and *architecture* are NVML's constants without their prefix."""

    name: str
    brand: str
    architecture: str
    compute_capability: str = Field(pattern=r"^\d+\.\d+$")
    memory: Memory | None
    mig: MigTable | None = None


def names() -> tuple[str, ...]:
    """Return the names that `board` knows."""
    return tuple(sorted(path.stem for path in _PROFILES.glob("*.yaml")))


@cache
def board(name: str) -> Board:
    """Return the board called *name*; `KeyError` if there is none."""
    if name not in names():
        raise KeyError(name)
    text = (_PROFILES / f"{name}.yaml").read_text(encoding="utf-8")
    return Board.model_validate(yaml.safe_load(text))
