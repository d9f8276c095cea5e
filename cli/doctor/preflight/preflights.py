"""One preflight a node, one after the other."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from cli.doctor.cluster.view import Cluster
from cli.doctor.model import Finding, Half, Verdict, failed, skipped, unknown
from cli.doctor.preflight.choosing import image, ways
from cli.doctor.preflight.objects import Image, Way
from cli.doctor.preflight.trying import Try, ended_by_signals
from cli.doctor.running import from_error, is_lack_of_rights
from kube.errors import ApiError, KubeError

ID: Final = "preflight"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What the command was told about preflights."""

    image: str | None
    nodes: tuple[str, ...]
    timeout_s: float
    kubeconfig: Path | None
    clear_s: float = 45.0
    """How long to wait until what was deleted is gone."""


def preflights(cluster: Cluster, wish: Wish) -> Iterator[Finding]:
    """Yield what came of a preflight on each node."""
    try:
        found = ways(cluster, wish.nodes)
        chosen = image(cluster, wish.image)
    except KubeError as error:
        yield _finding("", from_error(error))
        return
    if chosen is None:
        said = "no image: there is no DaemonSet of ours whose image could be taken"
        yield _finding("", unknown(said, "name one that has `sh` with --preflight-image"))
        return
    if not found:
        yield _finding("", skipped("no node offers GPUs of ours"))
    with ended_by_signals():
        yield from _each(cluster, wish, found, chosen)


def _each(
    cluster: Cluster, wish: Wish, found: dict[str, Way | None], chosen: Image
) -> Iterator[Finding]:
    for node, way in found.items():
        if way is None:
            said = f"node {node} offers no GPU of ours"
            yield _finding(node, unknown(said, "see node-agents and published-gpus"))
            continue
        attempt = Try(
            cluster=cluster,
            kubeconfig=wish.kubeconfig,
            node=node,
            way=way,
            image=chosen,
            timeout_s=wish.timeout_s,
            clear_s=wish.clear_s,
        )
        yield _finding(node, _tried(attempt))


def _tried(attempt: Try) -> Verdict:
    try:
        return attempt.run()
    except KubeError as error:
        if isinstance(error, ApiError) and not is_lack_of_rights(error):
            remedy = "see who refused it, and name another namespace with --trial-namespace"
            verdict = failed(f"the API server refused it: {error.message}", remedy)
        else:
            verdict = from_error(error)
        return replace(verdict, details=tuple(getattr(error, "__notes__", ())))


def _finding(node: str, verdict: Verdict) -> Finding:
    return Finding(id=ID, half=Half.PREFLIGHT, verdict=verdict, about=node)
