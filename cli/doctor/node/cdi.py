"""Checks of the directories of CDI specs, and of what is left in them."""

import os
import time
from pathlib import Path
from typing import Final

from cdi.errors import StoreError
from cdi.store import SpecStore
from cli.doctor.model import Check, Verdict, counted, failed, listed, ok, unknown, warning
from cli.doctor.node.view import Node
from gpu.names import DRIVER
from kube.errors import KubeError

ETC: Final = "/etc/cdi"
_YOUNG_S: Final = 900.0
"""An agent sweeps every ten minutes, and a claim may be read before it is listed."""


def directories(node: Node) -> Verdict:
    """Look whether the agent's directory can be used, and whether the usual ones are there."""
    ours = node.shared(node.cdi_directory)
    if not ours.is_dir():
        parent = ours.parent
        if not parent.is_dir():
            said = f"neither {node.cdi_directory} nor its parent is there"
            return failed(said, "make the directory, or name another with --cdi-directory")
        said = f"{node.cdi_directory} is not there yet; the agent makes it"
        return ok(said) if os.access(parent, os.W_OK) else warning(said, "make it writable")
    if not os.access(ours, os.R_OK | os.X_OK):
        return unknown(f"{node.cdi_directory} may not be read by this user", "run this as root")
    if _is_read_only(ours):
        said = f"{node.cdi_directory} is on a file system that is read-only"
        return failed(said, "name one that is not with --cdi-directory, and to the runtime too")
    if not node.shared(ETC).is_dir():
        # Fixed in CDI 0.5.1: the first directory that was missing ended the search.
        said = f"{node.cdi_directory} is fit; {ETC} is missing, where old runtimes stop looking"
        return warning(said, f"make {ETC}, it may be empty")
    return ok(f"{node.cdi_directory} and {ETC} are there")


def left(node: Node) -> Verdict:
    """Look for specs of ours of claims that are gone."""
    folder = node.shared(node.cdi_directory)
    store = SpecStore(folder)
    try:
        there = store.claim_uids()
    except StoreError as error:
        return unknown(str(error))
    if not there:
        return ok("no spec of ours")
    old = {uid for uid in there if _age_s(store.path(uid)) > _YOUNG_S}
    if not old:
        return ok(f"{counted(len(there), 'spec')} of ours, all young")
    return _held_against_cluster(node, store, old)


def _held_against_cluster(node: Node, store: SpecStore, old: set[str]) -> Verdict:
    if node.claim_uids is None:
        return unknown(f"whether {counted(len(old), 'spec')} are used is for the cluster to say")
    try:
        gone = sorted(old - node.claim_uids())
    except KubeError as error:
        return unknown(f"whether {counted(len(old), 'spec')} are used is not known: {error}")
    if not gone:
        return ok(f"{counted(len(old), 'spec')} of ours, all of claims that are there")
    remedy = f"start the agent of {DRIVER}, which removes them, or remove them by hand"
    paths = [str(store.path(uid).name) for uid in gone]
    return warning(
        f"{counted(len(gone), 'spec')} of claims that are gone: {listed(gone)}", remedy, *paths
    )


def _age_s(path: Path) -> float:
    try:
        return time.time() - path.stat().st_mtime
    except OSError:
        return 0.0


def _is_read_only(path: Path) -> bool:
    return bool(os.statvfs(path).f_flag & os.ST_RDONLY)


CHECKS: Final = (
    Check(id="cdi-directories", run=directories),
    Check(id="cdi-specs-left", run=left),
)
