"""The file by which any Kubernetes client finds the simulated server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import yaml

if TYPE_CHECKING:
    from pathlib import Path


def write(path: Path, *, url: str, user: str, token: str) -> None:
    """Write a kubeconfig with one context, readable by its owner only."""
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "gpuslice-sim", "cluster": {"server": url}}],
        "users": [{"name": user, "user": {"token": token}}],
        "contexts": [
            {
                "name": "gpuslice-sim",
                "context": {"cluster": "gpuslice-sim", "user": user, "namespace": "default"},
            }
        ],
        "current-context": "gpuslice-sim",
    }
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(content, sort_keys=False))
