"""Why a pod has no node, by the rules of `gpuslice explain`, where these are installed."""

from pathlib import Path
from typing import Final

_LINES_MAX: Final = 6


def explained(kubeconfig: Path | None, namespace: str, name: str) -> tuple[str, ...]:
    """Return some lines about why the pod waits; none where that cannot be told."""
    try:
        from cli.explain.errors import InputError  # noqa: PLC0415 - the rules are an extra
        from cli.explain.source import read  # noqa: PLC0415
        from cli.explain.text import lines_of  # noqa: PLC0415
        from kube.objects import ObjectKey  # noqa: PLC0415
        from sim.explain.errors import ExplainError  # noqa: PLC0415
        from sim.explain.explainer import explain_pod  # noqa: PLC0415
        from sim.explain.rules import rules_of  # noqa: PLC0415
    except ImportError:
        return ()
    try:
        found = read(kubeconfig, namespace)
        rules = rules_of(found.version, found.snapshot, gates={})
        said = explain_pod(found.snapshot, ObjectKey(namespace, name), rules=rules)
    except (InputError, ExplainError):
        return ()
    lines = [line.text.strip() for line in lines_of(said) if line.text.strip()]
    return tuple(line for line in lines if not line.startswith("note:"))[:_LINES_MAX]
