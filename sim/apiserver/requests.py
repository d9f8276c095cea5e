"""What comes with a request besides the object: query parameters and options as values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sim.apiserver.patches import MERGE_PATCH
from sim.apiserver.users import SIMULATION

if TYPE_CHECKING:
    from sim.apiserver.json_values import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """Which objects to list, and which page of them; *limit* 0 is all."""

    labels: str = ""
    fields: str = ""
    limit: int = 0
    continue_token: str = ""
    resource_version: str = ""
    """Not older than this one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A part of a list; all parts show the state at *resource_version*."""

    items: list[JsonObject]
    resource_version: str
    continue_token: str = ""
    remaining: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """How to write: everything but the object."""

    subresource: str = ""
    patch_type: str = MERGE_PATCH
    dry_run: bool = False
    field_validation: str = "Warn"
    """`Strict`, `Warn` or `Ignore`: what to do about unknown fields."""
    field_manager: str = ""
    force: bool = False
    uid: str = ""
    """The identity that the object must have, or that a new one gets."""
    resource_version: str = ""
    grace_period_s: int | None = None
    propagation: str = ""
    """`Foreground`, `Background` or `Orphan`; empty leaves the object's own finalizers."""
    user: str = SIMULATION
    """Who writes, as webhooks are told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a write has come to; *removed* when the object is no longer stored."""

    obj: JsonObject
    created: bool = False
    removed: bool = False
    warnings: tuple[str, ...] = field(default=())
