"""What a claim contains, made once for pods that ask for the same, such as the replicas of a Job.

All of it follows from what a container asks, what there is in the cluster and the settings. So it
is kept for the requests seen last, as long as neither the GPUs of the cluster nor the settings
are others.
"""

from dataclasses import dataclass
from typing import Final

from gpu.refusal import Refusal
from hami.preferences import Preferences
from hami.requests import DeviceRequest
from kube.objects import JsonObject
from webhook.devicewish import Asked, TranslationSettings, wished
from webhook.facts import ClusterFacts
from webhook.requestannotation import request_text
from webhook.templatecontent import content_of

_KEPT_MAX: Final = 256
_TEXT_MAX: Final = 4096
"""Longer ones are not kept: an annotation of a pod may have 256 KiB."""

_Key = tuple[DeviceRequest, Preferences, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """A claim that several pods may have; nobody changes its spec."""

    text: str
    """Its request as JSON, for the annotation."""
    template: str
    spec: JsonObject
    warnings: tuple[Refusal, ...]


@dataclass(frozen=True, slots=True)
class _Kept:
    """Claims by what asks for them, for one state of the cluster."""

    facts: ClusterFacts
    settings: TranslationSettings
    contents: dict[_Key, Content]


class Contents:
    """Makes claims, and keeps the last ones."""

    def __init__(self) -> None:
        self._kept: _Kept | None = None

    def of(self, asked: Asked) -> Content:
        """Return the claim for *asked*; raises `RefusedError`."""
        kept = self._kept_for(asked)
        key = (asked.device, asked.preferences, asked.path)
        found = kept.get(key)
        if found is None:
            found = _made(asked)
            if len(found.text) + len(asked.preferences.modes or "") <= _TEXT_MAX:
                if len(kept) >= _KEPT_MAX:
                    kept.pop(next(iter(kept)), None)
                kept[key] = found
        return found

    def _kept_for(self, asked: Asked) -> dict[_Key, Content]:
        kept = self._kept
        if kept is None or (kept.facts, kept.settings) != (asked.facts, asked.settings):
            kept = self._kept = _Kept(asked.facts, asked.settings, {})
        return kept.contents


def _made(asked: Asked) -> Content:
    request, warnings = wished(asked)
    template, spec = content_of(request, asked.path)
    return Content(text=request_text(request), template=template, spec=spec, warnings=warnings)
