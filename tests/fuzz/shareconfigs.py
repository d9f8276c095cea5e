"""Opaque configuration: what a user or an administrator writes, handed through unread."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from kube.shareconfig import ShareConfig, ShareConfigError, parse
from tests.fuzz.mutation import spoiled
from tests.fuzz.running import expect

_HEAD: Final = {"apiVersion": "gpuslice.io/v1alpha1", "kind": "ShareConfig"}
VALID: Final[tuple[dict[str, Any], ...]] = (
    _HEAD,
    _HEAD | {"priority": 0},
    _HEAD | {"priority": 1, "logLevel": 4},
    _HEAD | {"corePolicy": "force", "enforcement": "hami-core", "logLevel": 0},
    _HEAD | {"corePolicy": "disable", "enforcement": "none", "priority": None},
)
_WORDS: Final[Mapping[str, tuple[str, ...]]] = {
    "apiVersion": ("gpuslice.io/v1alpha1",),
    "kind": ("ShareConfig",),
    "corePolicy": ("default", "force", "disable"),
    "enforcement": ("hami-core", "none"),
}
_NUMBERS: Final = {"priority": (0, 1), "logLevel": (0, 1, 2, 3, 4)}


def is_valid(parameters: Any) -> bool:
    """Tell whether the documentation allows *parameters*."""
    if not isinstance(parameters, dict) or parameters.keys() - _WORDS.keys() - _NUMBERS.keys():
        return False
    given = {key: value for key, value in parameters.items() if key in _NUMBERS}
    numbers = all(
        value is None or (type(value) is int and value in _NUMBERS[key])
        for key, value in given.items()
    )
    words = all(
        type(value) is str and value in _WORDS[key]
        for key, value in parameters.items()
        if key in _WORDS
    )
    return numbers and words and parameters.keys() >= _HEAD.keys()


def expect_config(found: ShareConfig, parameters: Mapping[str, Any]) -> None:
    """Hold *found* against the *parameters* that it was read from."""
    for key, name in (("priority", "priority"), ("logLevel", "log_level")):
        value = getattr(found, name)
        expect(value == parameters.get(key) and type(value) is not bool, f"another {key}: {value}")
    policy = parameters.get("corePolicy", "default")
    expect(found.core_policy == policy, f"another policy: {found.core_policy}")
    enforcement = parameters.get("enforcement", "hami-core")
    expect(found.enforcement == enforcement, f"another enforcement: {found.enforcement}")


@dataclass(frozen=True, slots=True)
class ShareConfigs:
    """Objects near valid `ShareConfig`s."""

    read: Callable[[dict[str, Any]], ShareConfig] = parse
    name: str = "opaque-config"
    weight: int = 20

    def make(self, rng: Random) -> Any:
        """Return a value as JSON has them."""
        return spoiled(rng, rng.choice(VALID), donor=rng.choice(VALID), most=2)

    def check(self, sample: Any) -> bool:
        """Compare with the documentation; what is said of errors has to fit into an answer."""
        try:
            found = self.read(sample)
        except ShareConfigError as error:
            expect(not is_valid(sample), "a valid configuration was refused")
            said = str(error)
            said.encode()
            expect(len(said) < 1000 + len(error.field), "an endless message")
            return False
        expect(is_valid(sample), "an invalid configuration was taken")
        expect_config(found, sample)
        expect(self.read(sample) == found, "another answer the second time")
        return True

    def close(self) -> None:
        """Do nothing: nothing is held."""
