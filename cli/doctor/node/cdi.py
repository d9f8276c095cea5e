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
_ELSEWHERE: Final = "name another with --cdi-directory, and to the runtime"
_YOUNG_S: Final = 900.0
"""An agent sweeps every ten minutes, and a claim may be read before it is listed."""


def directories(node: Node) -> Verdict:
    """Look whether the agent's directory can be used, and whether the usual ones are there."""
    ours = node.shared(node.cdi_directory)
    if not ours.is_dir():
        return _to_be_made(node, ours.parent)
    if not os.access(ours, os.R_OK | os.X_OK):
        return unknown(f"{node.cdi_directory} may not be read by this user", "run this as root")
    if node.can_write(ours) is False:
        return failed(f"{node.cdi_directory} is on a file system that is read-only", _ELSEWHERE)
    if not node.shared(ETC).is_dir():
        # Fixed in CDI 0.5.1: the first directory that was missing ended the search.
        said = f"{node.cdi_directory} is fit; {ETC} is missing, where old runtimes stop looking"
        return warning(said, f"make {ETC}, it may be empty")
    return ok(f"{node.cdi_directory} and {ETC} are there")


def _to_be_made(node: Node, parent: Path) -> Verdict:
    if not parent.is_dir():
        said = f"neither {node.cdi_directory} nor its parent is there"
        return failed(said, "make the directory, or name another with --cdi-directory")
    said = f"{node.cdi_directory} is not there yet; the agent makes it"
    if node.can_write(parent) is False:
        return failed(f"{said}, but cannot: it is read-only there", _ELSEWHERE)
    return ok(said)


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


CHECKS: Final = (
    Check(id="cdi-directories", run=directories),
    Check(id="cdi-specs-left", run=left),
)
