"""Reads the annotations with which a pod chooses devices, and says which have no effect.

HAMi reads them while it schedules: what it cannot read it takes for something else, or it fails
the pod at every attempt. Here a text that can match nothing, or that HAMi's scheduler would
refuse, refuses the pod; one that HAMi takes for something else is a warning that says for what.
Annotations of other vendors' devices are read by their own part.
"""

import re
from collections.abc import Callable, Iterable, Mapping
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
    fields: dict[str, Any] = {
        field: read_one(reading, key)
        for key, (field, read_one) in _READERS.items()
        if key in reading.annotations and (nvidia or key not in userkeys.OF_NVIDIA)
    }
    return PreferenceReading(
        preferences=Preferences(**fields),
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


def _numa_bind(reading: _Reading, key: str) -> bool:
    text = reading.text(key)
    said = matching.parsed_bool(text)
    if said is None and text:
        reading.warn("NotABoolean", key, "read as false", "write true or false")
    return said or False


def _modes(reading: _Reading, key: str) -> str | None:
    text = reading.text(key)
    if text and not any(mode in text for mode in MODES):
        reading.warn(
            "UnknownMode",
            key,
            "no GPU has such a mode",
            f"write {' or '.join(MODES)}",
        )
    return text or None


def _gpu_policies(reading: _Reading, key: str) -> tuple[str, ...]:
    """Return the known words of a chain; a chain without one spreads."""
    said = matching.members(reading.text(key))
    if said is None:
        return ()
    unknown = [each for each in said if each not in GPU_POLICIES]
    known = _unique(each for each in said if each in GPU_POLICIES)
    if unknown or not known:
        effect = "has no effect" if known else "behaves as spread"
        words = ", ".join(unknown)
        reading.warn(
            "UnknownPolicy",
            key,
            f"policy `{shown(words)}` is unknown and {effect}",
            f"known are {', '.join(GPU_POLICIES)}",
        )
    return known or ("spread",)


def _node_policy(reading: _Reading, key: str) -> str | None:
    said = reading.text(key).strip()
    if not said or said in NODE_POLICIES:
        return said or None
    reading.warn(
        "UnknownPolicy",
        key,
        f"policy `{shown(said)}` is unknown and behaves as binpack",
        f"known are {', '.join(NODE_POLICIES)}",
    )
    return "binpack"


def _alignment(reading: _Reading, key: str) -> NumaAlignment | None:
    said = reading.text(key).strip()
    if not said:
        return None
    try:
        return NumaAlignment(said)
    except ValueError:
        known = " or ".join(NumaAlignment)
        reading.refuse("NumaAlignmentInvalid", key, f"must be {known}")
    return None


def _weights(reading: _Reading, key: str) -> ScoringWeights | None:
    text = reading.text(key)
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
        key,
        "expected slot, core, and memory weights: whole numbers from 0, not all 0",
        "write for example slot=1,core=1,memory=3",
    )
    return None


def _unique(found: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(found))


_READERS: Final[Mapping[str, tuple[str, Callable[[_Reading, str], object]]]] = {
    userkeys.USE_TYPE: ("use_types", _types),
    userkeys.NOUSE_TYPE: ("nouse_types", _types),
    userkeys.USE_UUID: ("use_uuids", _uuids),
    userkeys.NOUSE_UUID: ("nouse_uuids", _uuids),
    userkeys.NUMA_BIND: ("numa_bind", _numa_bind),
    userkeys.VGPU_MODE: ("modes", _modes),
    userkeys.GPU_POLICY: ("gpu_policies", _gpu_policies),
    userkeys.NODE_POLICY: ("node_policy", _node_policy),
    userkeys.SCORING_WEIGHTS: ("scoring_weights", _weights),
    userkeys.NUMA_ALIGNMENT: ("numa_alignment", _alignment),
}
"""The field that each annotation fills and how it is read; also the order of what is said."""
