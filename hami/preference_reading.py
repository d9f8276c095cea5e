"""Reads the annotations with which a pod chooses devices, and says which have no effect.

HAMi reads them while it schedules: what it cannot read it takes for something else, or it fails
the pod at every attempt. Here a text that can match nothing, or that HAMi's scheduler would
refuse, refuses the pod; one that HAMi takes for something else is a warning that says for what.
Annotations of other vendors' devices are read by their own part.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from gpu.refusal import Refusal
from hami import matching, userkeys
from hami.containers import JsonObject
from hami.preferences import NumaAlignment, Preferences, ScoringWeights
from hami.wording import shown

UUID_PATTERN: Final = re.compile(r"(GPU|MIG)-[0-9A-Za-z-]{1,64}")
"""All of a UUID; nothing in it needs an escape in CEL or JSON."""
GPU_POLICIES: Final = ("binpack", "spread", "topology-aware", "mutex", "numa")
NODE_POLICIES: Final = ("binpack", "spread")
MODES: Final = ("hami-core", "mig")
_KEYS: Final = frozenset((*userkeys.OF_NVIDIA, *userkeys.OF_ALL_VENDORS))
_INT64_MAX: Final = 2**63 - 1
_WEIGHTS: Final = ("slot", "core", "memory")
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,20}")


@dataclass(slots=True)
class _Reading:
    """What one pod's annotations said, while they are read."""

    annotations: Mapping[str, Any]
    reasons: list[Refusal] = field(default_factory=list)
    warnings: list[Refusal] = field(default_factory=list)

    def text(self, key: str) -> str:
        """Return the text under *key*, blank where there is none."""
        found = self.annotations.get(key, "")
        if isinstance(found, str):
            return found if found.strip() else ""
        self.refuse("AnnotationNotText", key, f"annotation {key} must be a text")
        return ""

    def refuse(self, code: str, key: str, limit: str, remedy: str = "") -> None:
        self.reasons.append(self._said(code, key, limit, remedy))

    def warn(self, code: str, key: str, limit: str, remedy: str = "") -> None:
        self.warnings.append(self._said(code, key, limit, remedy))

    def _said(self, code: str, key: str, limit: str, remedy: str) -> Refusal:
        return Refusal(
            code=code,
            field=f"metadata.annotations[{shown(key)}]",
            value=shown(self.annotations.get(key, "")),
            limit=limit,
            remedy=remedy,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PreferenceReading:
    """What annotations say; *preferences* mean nothing where there are *reasons*."""

    preferences: Preferences
    reasons: tuple[Refusal, ...] = ()
    warnings: tuple[Refusal, ...] = ()


def annotations_of(pod: JsonObject) -> Mapping[str, Any]:
    """Return the annotations of *pod*, whatever it is."""
    metadata = pod.get("metadata")
    found = metadata.get("annotations") if isinstance(metadata, dict) else None
    return found if isinstance(found, dict) else {}


def read(pod: JsonObject, *, nvidia: bool) -> PreferenceReading:
    """Read what *pod* prefers; what concerns NVIDIA GPUs alone only where it asks for one."""
    reading = _Reading(annotations_of(pod))
    if _KEYS.isdisjoint(reading.annotations):
        return PreferenceReading(preferences=Preferences())
    text = reading.text
    preferences = Preferences(
        use_types=_types(reading, userkeys.USE_TYPE) if nvidia else (),
        nouse_types=_types(reading, userkeys.NOUSE_TYPE) if nvidia else (),
        use_uuids=_uuids(reading, userkeys.USE_UUID) if nvidia else (),
        nouse_uuids=_uuids(reading, userkeys.NOUSE_UUID) if nvidia else (),
        numa_bind=nvidia and _numa_bind(reading),
        modes=_modes(reading, text(userkeys.VGPU_MODE)) if nvidia else None,
        gpu_policies=_gpu_policies(reading, text(userkeys.GPU_POLICY)),
        node_policy=_node_policy(reading, text(userkeys.NODE_POLICY)),
        scoring_weights=_weights(reading, text(userkeys.SCORING_WEIGHTS)),
        numa_alignment=_alignment(reading, text(userkeys.NUMA_ALIGNMENT)),
    )
    return PreferenceReading(
        preferences=preferences,
        reasons=tuple(reading.reasons),
        warnings=tuple(reading.warnings),
    )


def without_effect(pod: JsonObject, resources: Iterable[str]) -> tuple[Refusal, ...]:
    """Return a warning for each annotation that was meant as one of *resources*."""
    reading = _Reading(annotations_of(pod))
    for key in sorted(set(resources) & reading.annotations.keys()):
        why = f"annotation {key} has no effect; put it in resources.limits"
        reading.warn("AnnotationWithoutEffect", key, why)
    for key in sorted(filter(_is_fraction, reading.annotations)):
        reading.warn(
            "AnnotationWithoutEffect",
            key,
            f"annotation {shown(key)} has no effect",
            "ask for a part of a GPU in resources.limits",
        )
    return tuple(reading.warnings)


def _is_fraction(key: Any) -> bool:
    return isinstance(key, str) and key.rsplit("/", 1)[-1] in userkeys.FRACTION_NAMES


def _list(reading: _Reading, key: str) -> tuple[str, ...]:
    if key not in reading.annotations:
        return ()
    found = matching.members(reading.text(key))
    if found is None:
        reading.warn("BlankAnnotation", key, "a blank list is no constraint")
    if found != ():
        return found or ()
    if key in {userkeys.USE_TYPE, userkeys.USE_UUID}:
        reading.refuse("EmptyList", key, f"{key} has only empty members, which match no GPU")
    else:
        reading.warn("EmptyList", key, "empty members exclude no GPU")
    return ()


def _types(reading: _Reading, key: str) -> tuple[str, ...]:
    return _unique(each.lower() for each in _list(reading, key))


def _uuids(reading: _Reading, key: str) -> tuple[str, ...]:
    found = _unique(_list(reading, key))
    bad = next((each for each in found if not UUID_PATTERN.fullmatch(each)), None)
    if bad is not None:
        reading.refuse(
            "UuidInvalid",
            key,
            f"{key}: `{shown(bad)}` does not match ^(GPU|MIG)-[0-9A-Za-z-]{{1,64}}$",
        )
    return found


def _numa_bind(reading: _Reading) -> bool:
    text = reading.text(userkeys.NUMA_BIND)
    said = matching.parsed_bool(text)
    if said is None and text:
        reading.warn("NotABoolean", userkeys.NUMA_BIND, "read as false", "write true or false")
    return said or False


def _modes(reading: _Reading, text: str) -> str | None:
    if text and not any(mode in text for mode in MODES):
        reading.warn(
            "UnknownMode",
            userkeys.VGPU_MODE,
            "no GPU has such a mode",
            f"write {' or '.join(MODES)}",
        )
    return text or None


def _gpu_policies(reading: _Reading, text: str) -> tuple[str, ...]:
    """Return the known words of a chain; a chain without one spreads."""
    said = matching.members(text)
    if said is None:
        return ()
    unknown = [each for each in said if each not in GPU_POLICIES]
    known = _unique(each for each in said if each in GPU_POLICIES)
    if unknown or not known:
        effect = "has no effect" if known else "behaves as spread"
        words = ", ".join(unknown)
        reading.warn(
            "UnknownPolicy",
            userkeys.GPU_POLICY,
            f"policy `{shown(words)}` is unknown and {effect}",
            f"known are {', '.join(GPU_POLICIES)}",
        )
    return known or ("spread",)


def _node_policy(reading: _Reading, text: str) -> str | None:
    said = text.strip()
    if not said or said in NODE_POLICIES:
        return said or None
    reading.warn(
        "UnknownPolicy",
        userkeys.NODE_POLICY,
        f"policy `{shown(said)}` is unknown and behaves as binpack",
        f"known are {', '.join(NODE_POLICIES)}",
    )
    return "binpack"


def _alignment(reading: _Reading, text: str) -> NumaAlignment | None:
    said = text.strip()
    if not said:
        return None
    try:
        return NumaAlignment(said)
    except ValueError:
        known = " or ".join(NumaAlignment)
        reading.refuse("NumaAlignmentInvalid", userkeys.NUMA_ALIGNMENT, f"must be {known}")
    return None


def _weights(reading: _Reading, text: str) -> ScoringWeights | None:
    if not text:
        return None
    pairs = [tuple(part.strip() for part in each.split("=", 1)) for each in text.split(",")]
    said = {pair[0]: pair[1] for pair in pairs if len(pair) == 2 and _INTEGER.fullmatch(pair[1])}
    if len(pairs) == len(_WEIGHTS) and said.keys() == set(_WEIGHTS):
        numbers = [int(said[name]) for name in _WEIGHTS]
        if min(numbers) >= 0 and 0 < max(numbers) <= _INT64_MAX:
            return ScoringWeights(slot=numbers[0], core=numbers[1], memory=numbers[2])
    reading.refuse(
        "ScoringWeightsInvalid",
        userkeys.SCORING_WEIGHTS,
        "expected slot, core, and memory weights: whole numbers from 0, not all 0",
        "write for example slot=1,core=1,memory=3",
    )
    return None


def _unique(found: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(found))
