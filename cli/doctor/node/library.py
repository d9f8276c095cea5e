"""The check of HAMi-core's library: there, fit for this node, and known."""

from pathlib import Path
from typing import Final

from cdi.compatibility import by_manifest, by_release, manifest_path, release_in_name
from cdi.errors import CdiError
from cdi.library import PLACEHOLDER_LABEL
from cdi.libraryfile import read_library, read_manifest
from cli.doctor.model import Check, Verdict, failed, ok, skipped, unknown, warning
from cli.doctor.node.view import Node
from gpu.refusal import RefusedError
from hami.delivery.finding import find

_DELIVER: Final = "deliver it with `gpuslice install-library`, or name it with --hami-core-library"


def library(node: Node) -> Verdict:
    """Read the library and what is said of it."""
    if not node.library:
        return skipped("no --hami-core-library is named: shares are refused or not limited here")
    path = node.shared(node.library)
    if not path.exists():
        return failed(f"{node.library} is not there: shares are refused on this node", _DELIVER)
    try:
        return _read(node.library, path)
    except RefusedError as error:
        refusal = error.refusal
        return failed(f"{refusal.code}: {refusal.value}: {refusal.limit}", refusal.remedy)
    except CdiError as error:
        return unknown(str(error))


def _read(name: str, path: Path) -> Verdict:
    content = read_library(path)
    beside = manifest_path(path)
    manifest = read_manifest(beside) if beside.exists() else None
    if manifest is not None:
        find(path.parent)
    if content.endswith(PLACEHOLDER_LABEL):
        return warning(f"{name} is a placeholder that limits nothing", _DELIVER)
    known = by_manifest(manifest) if manifest else by_release(release_in_name(path.name))
    said = f"{name}, release {known.version or 'unknown'}"
    if manifest is None and not known.version:
        remedy = "put a manifest beside it (see docs/node-agent.md), or use a release's own name"
        return warning(f"{said}: what it needs is assumed", remedy)
    return ok(f"{said} (by its {'manifest' if manifest else 'name'})")


CHECKS: Final = (Check(id="library", run=library),)
