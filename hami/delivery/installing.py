"""Installs the library on the node: what `gpuslice install-library` does.

It runs in an init container beside the node agent, from a directory that the library's image has
filled. Copies that are there already are never written: processes have them mapped, and a changed
page would end them. A copy that no container refers to is removed by the node agent, which knows.
"""

from dataclasses import dataclass
from pathlib import Path

from cdi.compatibility import version_of
from cdi.library import HookLibrary, LibraryStore
from gpu.refusal import Refusal, RefusedError
from hami.delivery.finding import Found, find


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """What was installed, and what an administrator should know of it."""

    library: HookLibrary
    found: Found
    warnings: tuple[Refusal, ...]


def install(
    source: Path, target: Path, *, manifest: Path | None = None, oldest_glibc: str = ""
) -> Installed:
    """Copy the library in the directory *source* to the directory *target*.

    `RefusedError` if it is unfit, or needs a newer C library than *oldest_glibc*, that of the
    oldest image which is to be limited; StoreError if it cannot be written.
    """
    found = find(source, manifest=manifest)
    minimum = found.needs.minimum if found.needs else None
    if oldest_glibc and minimum and minimum > version_of(oldest_glibc):
        raise RefusedError(
            Refusal(
                code="LibraryNeedsNewerLibc",
                field="--oldest-glibc",
                value=oldest_glibc,
                limit=f"the library needs glibc {'.'.join(map(str, minimum))}",
                remedy="take a library that was built on an older distribution",
            )
        )
    store = LibraryStore(target, str(target))
    store.sweep_temporary()
    library = store.deliver(found.content, found.manifest)
    return Installed(library=library, found=found, warnings=tuple(_warnings(found)))


def _warnings(found: Found) -> list[Refusal]:
    warnings = []
    value = found.path.name
    if found.manifest is None:
        warnings.append(
            Refusal(
                code="LibraryUnknown",
                field="manifest",
                value=value,
                limit="without a manifest the layout of 1.2 and no lock directory are assumed",
                remedy="put a manifest beside it",
            )
        )
    if found.needs is None:
        warnings.append(
            Refusal(
                code="LibcUnknown",
                field="library",
                value=value,
                limit="which C library it needs cannot be read from it",
            )
        )
    elif found.needs.private:
        warnings.append(
            Refusal(
                code="LibcPrivate",
                field="library",
                value=value,
                limit="it needs private symbols of glibc, which newer images may not have",
                remedy="take a newer HAMi-core",
            )
        )
    return warnings
