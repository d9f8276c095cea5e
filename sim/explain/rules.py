"""Whose rules to apply: the release of the cluster, as far as it can be told.

A server drops the fields of features that are off, so a field that is there says that its feature
is on, whatever the release has by default. The scheduler of a cluster is taken for as new as its
API server.
"""

import re
from typing import NamedTuple

from sim.explain.snapshot import Snapshot

RELEASES = ("1.34", "1.35", "1.36", "1.37")
"""Those whose rules are known."""
NEWEST = RELEASES[-1]
_MINOR = re.compile(r"v?(\d+)\.(\d+)")


class Rules(NamedTuple):
    """The release to follow, and what is to be said about the choice."""

    release: str
    note: str = ""


def rules_of(version: str, snapshot: Snapshot) -> Rules:
    """Choose by a *version* such as `v1.37.2`, or without one by what the nodes run."""
    minor = _minor(version) or max(filter(None, map(_minor, _kubelets(snapshot))), default=None)
    if minor is None:
        return Rules(NEWEST, f"the cluster's release is not known: the rules are those of {NEWEST}")
    older = [release for release in RELEASES if (_minor(release) or minor) <= minor]
    chosen = older[-1] if older else RELEASES[0]
    if _minor(chosen) == minor:
        return Rules(chosen)
    text = ".".join(str(number) for number in minor)
    return Rules(chosen, f"the rules of {text} are not known: these are those of {chosen}")


def _kubelets(snapshot: Snapshot) -> list[str]:
    infos = ((node.get("status") or {}).get("nodeInfo") or {} for node in snapshot.nodes)
    return [str(info["kubeletVersion"]) for info in infos if info.get("kubeletVersion")]


def _minor(version: str) -> tuple[int, int] | None:
    match = _MINOR.match(version)
    return (int(match[1]), int(match[2])) if match else None
