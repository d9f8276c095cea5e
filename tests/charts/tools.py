"""The programs that the chart's tests run: helm of both majors, and Kubernetes' judge of pods.

They are built from their published Go modules into the cache of the cluster's programs, once; both
majors of helm, because people have either and templates must mean the same to them.
"""

from pathlib import Path
from typing import Final

from tests.cluster.assets import built_folder, cache_folder
from tests.cluster.build import build_module
from tests.cluster.errors import MissingError
from tests.cluster.go_modules import Module

HELM_3: Final = Module(name="helm-3", programs=("helm",))
HELM_4: Final = Module(name="helm-4", programs=("helm",))
POD_SECURITY: Final = Module(name="podsecurity", programs=("podsecurity",), package=".")
MODULES: Final = (HELM_3, HELM_4, POD_SECURITY)


def build() -> None:
    """Build what is not there."""
    for module in MODULES:
        build_module(module, cache_folder())


def program(module: Module) -> Path:
    """Return the program of *module*; MissingError says how to get it."""
    folder = built_folder(module, cache_folder())
    if folder is None:
        message = f"{module.name} is not built: `make chart-tools` builds it with Go 1.26 or newer"
        raise MissingError(message)
    return folder / module.programs[0]


def check() -> None:
    """Raise MissingError unless all are there."""
    for module in MODULES:
        program(module)
