"""Renders the chart with the real helm, and finds things in what comes out.

A render takes a fifth of a second, so equal ones are made once. A third of that is helm reading the
schema of the values, so helm 4 is asked for it only where Python finds them refused, and helm 3
always. What a template or the schema refuses is a `RefusedError` with helm's words.
"""

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Final

import jsonschema
import yaml

from charts.values.schema import FILE
from tests.charts.tools import HELM_3, HELM_4, program
from tests.cluster.cluster import REPOSITORY
from tests.cluster.go_modules import Module

Object = dict[str, Any]
CHART: Final = REPOSITORY / "charts" / "gpuslice"
RELEASE: Final = "gpuslice"
NAMESPACE: Final = "gpuslice-system"
HELMS: Final[Mapping[int, Module]] = {3: HELM_3, 4: HELM_4}
KUBE_SCHEDULER: Final = {
    "scheduler": {"kubeScheduler": {"image": {"repository": "kube-scheduler"}}}
}
"""What `helm template` cannot look up in a cluster."""


class RefusedError(Exception):
    """The chart does not render; the text is helm's."""


def render(
    values: Mapping[str, Any] | None = None,
    *,
    kubernetes: str = "1.37.2",
    helm: int = 4,
    release: str = RELEASE,
    namespace: str = NAMESPACE,
) -> list[Object]:
    """Return the objects, hooks included, in helm's order.

    *values* are merged over those without which nothing renders outside a cluster.
    """
    text = render_text(
        values, kubernetes=kubernetes, helm=helm, release=release, namespace=namespace
    )
    # The loader in C takes a fifteenth of the time, which would be most of that of all tests here.
    return [each for each in yaml.load_all(text, Loader=yaml.CSafeLoader) if each]


def render_text(
    values: Mapping[str, Any] | None = None,
    *,
    kubernetes: str = "1.37.2",
    helm: int = 4,
    release: str = RELEASE,
    namespace: str = NAMESPACE,
) -> str:
    """Return what helm prints."""
    chosen = json.dumps(merged(KUBE_SCHEDULER, values or {}), sort_keys=True)
    found = _render(chosen, kubernetes, helm, release, namespace)
    if isinstance(found, RefusedError):
        raise RefusedError(str(found))
    return found


@lru_cache(maxsize=1024)
def _render(
    values: str, kubernetes: str, helm: int, release: str, namespace: str
) -> str | RefusedError:
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        file.write(values)
        file.flush()
        try:
            return run(
                helm,
                *("template", release, str(CHART), "--namespace", namespace),
                *("--kube-version", kubernetes, "--values", file.name),
                *(["--skip-schema-validation"] if helm == 4 and _is_valid(values) else []),
            )
        except RefusedError as error:
            return error


def _is_valid(values: str) -> bool:
    return bool(_validator().is_valid(json.loads(values)))


@cache
def _validator() -> jsonschema.Draft7Validator:
    return jsonschema.Draft7Validator(json.loads(FILE.read_text()))


def run(helm: int, *arguments: str, kubeconfig: str = "/dev/null") -> str:
    """Run helm of that major, on no cluster unless told; return its output.

    `RefusedError` if it fails.
    """
    with tempfile.TemporaryDirectory() as home:
        result = subprocess.run(  # noqa: S603 - helm as it was built
            [str(program(HELMS[helm])), *arguments],
            check=False,
            capture_output=True,
            text=True,
            env={"PATH": os.environ["PATH"], "HOME": home, "KUBECONFIG": kubeconfig},
        )
    if result.returncode != 0:
        raise RefusedError(result.stderr)
    return result.stdout


def merged(under: Mapping[str, Any], over: Mapping[str, Any]) -> Object:
    """Return *under* with *over* on it, mappings in depth, as helm does it."""
    result = dict(under)
    for key, value in over.items():
        below = result.get(key)
        both = isinstance(value, Mapping) and isinstance(below, Mapping)
        result[key] = merged(below, value) if both and below is not None else value
    return result


def nested(path: str, value: Any) -> Object:
    """Return {a: {b: value}} for `a.b`."""
    for key in reversed(path.split(".")):
        value = {key: value}
    return dict(value)


def of_kind(objects: Sequence[Object], kind: str) -> list[Object]:
    """Return the objects of *kind*."""
    return [each for each in objects if each["kind"] == kind]


def one(objects: Sequence[Object], kind: str, name: str) -> Object:
    """Return the one object of that kind and name."""
    (found,) = [each for each in of_kind(objects, kind) if each["metadata"]["name"] == name]
    return found


def pod_templates(objects: Sequence[Object]) -> Iterator[tuple[str, Object]]:
    """Yield kind/name and pod template of everything that makes pods."""
    for each in objects:
        if each["kind"] in {"DaemonSet", "Deployment", "Job"}:
            yield f"{each['kind']}/{each['metadata']['name']}", each["spec"]["template"]


def container(workload: Object, name: str) -> Object:
    """Return the container or init container *name* of a workload."""
    spec = workload["spec"]["template"]["spec"]
    (found,) = [
        each
        for each in [*spec["containers"], *spec.get("initContainers", [])]
        if each["name"] == name
    ]
    return dict(found)


def files_below(folder: Path) -> list[Path]:
    """Return the YAML files below *folder*, sorted."""
    return sorted(folder.rglob("*.yaml"))
