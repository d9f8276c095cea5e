"""The simulated scheduler with one place of its source changed, loaded beside the usual one.

`mutations.json` has one change for each rule of device allocation, which breaks it.
Modules are loaded anew, so that what they import from each other is the changed code; those that
the change does not concern in any way stay, for they keep costly things such as the CEL engine.
"""

import importlib
import json
import sys
from dataclasses import dataclass
from importlib.abc import MetaPathFinder, SourceLoader
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import sim.scheduler

_PACKAGE: Final = "sim.scheduler"
_FOLDER: Final = Path(sim.scheduler.__path__[0])
_KEPT: Final = ("amounts", "cel", "cel_library", "devices", "errors", "features", "semver")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutation:
    """A *rule* that is broken by writing *new* for *old*, which stands once in *module*.

    *shown_by* names a recorded case that comes out otherwise then.
    """

    rule: str
    shown_by: str
    module: str
    old: str
    new: str

    @property
    def path(self) -> Path:
        """Return the file of the module."""
        return _FOLDER / f"{self.module}.py"

    def changed(self, text: str) -> str:
        """Return the module's source *text* with the change."""
        assert text.count(self.old) == 1, f"{self.rule}: {self.old!r} is not there once"
        return text.replace(self.old, self.new)


@dataclass(frozen=True, slots=True)
class Simulated:
    """What is asked of a scheduler's modules."""

    placement: Any
    allocator: Any
    reasons: Any


def read_mutations() -> tuple[Mutation, ...]:
    """Read all changes."""
    items = json.loads((Path(__file__).parent / "mutations.json").read_text())
    return tuple(Mutation(**item) for item in items)


def load(mutation: Mutation) -> Simulated:
    """Return the scheduler with *mutation*; everybody else keeps the one without."""
    kept = {f"{_PACKAGE}.{name}" for name in _KEPT if name != mutation.module}
    own = {name: it for name, it in sys.modules.items() if name.startswith(f"{_PACKAGE}.")}
    for name in own.keys() - kept:
        del sys.modules[name]
        delattr(sim.scheduler, name.rpartition(".")[2])
    finder = _Finder(mutation)
    sys.meta_path.insert(0, finder)
    try:
        return Simulated(
            *(_module(name) for name in ("placement", "allocator", "reasons")),
        )
    finally:
        sys.meta_path.remove(finder)
        for name in [name for name in sys.modules if name.startswith(f"{_PACKAGE}.")]:
            del sys.modules[name]
        sys.modules.update(own)
        for name, module in own.items():
            setattr(sim.scheduler, name.rpartition(".")[2], module)


def _module(name: str) -> ModuleType:
    return importlib.import_module(f"{_PACKAGE}.{name}")


class _Finder(MetaPathFinder):
    def __init__(self, mutation: Mutation) -> None:
        self._name = f"{_PACKAGE}.{mutation.module}"
        self._loader = _Loader(mutation)

    def find_spec(self, fullname: str, *_: object) -> ModuleSpec | None:
        """Find the changed module alone."""
        return spec_from_loader(fullname, self._loader) if fullname == self._name else None


class _Loader(SourceLoader):
    def __init__(self, mutation: Mutation) -> None:
        self._mutation = mutation

    def get_filename(self, fullname: str) -> str:
        """Return the file of the module."""
        assert fullname.endswith(f".{self._mutation.module}")
        return str(self._mutation.path)

    def get_data(self, path: str) -> bytes:
        """Return the changed source of what stands at *path*."""
        return self._mutation.changed(Path(path).read_text()).encode()
