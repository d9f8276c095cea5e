"""What the administrator decides about pods."""

from collections.abc import Collection
from dataclasses import dataclass

from hami.deviceconfig import DeviceConfig
from webhook.claims import TranslationSettings
from webhook.claimspec import CLASSES


@dataclass(frozen=True, slots=True, kw_only=True)
class PodRules:
    """Settings as values; the defaults are those of the program."""

    config: DeviceConfig
    translation: TranslationSettings
    scheduler_name: str
    force_overwrite: bool = True
    least_memory_mib: int = 512
    """Smaller shares are warned about."""
    uncontrolled_namespaces: Collection[str] = ()
    classes: frozenset[str] = CLASSES
    """DeviceClasses that give devices of ours."""
    environment_warns: bool = False
    """Variables that undo limits are a warning."""
    promotes: bool = False
    """A container that opts out of its limits gets a whole GPU instead of a refusal."""
