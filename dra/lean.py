"""Keeps the process small and its start short; import it before anything else.

structlog and grpc load asyncio for their asynchronous halves, which nobody uses here: 2 MB and a
tenth of the time that all imports take. Its name is taken by a stand-in that loads the real module
as soon as anybody asks it for anything. pydantic looks through all installed packages for plugins.
And while imports make objects that all stay, looking for garbage among them finds none.
"""

import gc
import importlib
import os
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_PUT_OFF = ("asyncio", "grpc.aio")


class _Later(ModuleType):
    """Stands for a module until something of it is used."""

    def __getattr__(self, name: str) -> Any:
        # What the import machinery looks at, except that only a package has a path.
        if name.startswith("__") and name != "__path__":
            raise AttributeError(name)
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(importlib.import_module(self.__name__), name)


def put_off() -> None:
    """Put stand-ins in the places of modules that nobody has loaded yet."""
    for name in _PUT_OFF:
        if name not in sys.modules:
            module = _Later(name)
            module.__spec__ = ModuleSpec(name, loader=None)
            sys.modules[name] = module


def imports_done() -> None:
    """Look for garbage again, but not among what there is: it stays as long as the process."""
    gc.freeze()
    gc.enable()


os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "1")
put_off()
gc.disable()
