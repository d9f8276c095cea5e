"""Runs `gpuslice convert` as a command, and reads what it prints."""

import argparse
import io
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from cli import convert_command
from kube.objects import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How the command ended."""

    status: int
    output: str
    errors: str

    @property
    def items(self) -> list[JsonObject]:
        """Return the printed objects."""
        return list(yaml.safe_load_all(self.output))

    def of_kind(self, kind: str) -> list[JsonObject]:
        """Return the printed objects of *kind*."""
        return [each for each in self.items if each["kind"] == kind]


def convert(*words: str) -> Ended:
    """Run the command with these words."""
    parser = argparse.ArgumentParser()
    convert_command.add_parser(parser.add_subparsers())
    args = parser.parse_args(["convert", *words])
    output, errors = io.StringIO(), io.StringIO()
    with redirect_stdout(output), redirect_stderr(errors):
        status = args.run(args)
    return Ended(status=status, output=output.getvalue(), errors=errors.getvalue())


def converted(folder: Path, *objects: Any, words: tuple[str, ...] = ()) -> Ended:
    """Convert *objects*, or texts, from one file below *folder*."""
    texts = [each if isinstance(each, str) else yaml.safe_dump(each) for each in objects]
    file = folder / "manifests.yaml"
    file.write_text("---\n".join(texts))
    return convert(str(file), *words)


def a_pod(name: str = "app", **limits: str) -> JsonObject:
    """Return a pod with limits by short names: `gpu`, `gpumem`, `gpucores`."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": pod_spec(**limits),
    }


def pod_spec(**limits: str) -> JsonObject:
    """Return the spec of such a pod."""
    amounts = {f"nvidia.com/{key.replace('_', '-')}": value for key, value in limits.items()}
    container = {"name": "main", "image": "image:1", "resources": {"limits": amounts}}
    return {"containers": [container]}


def a_workload(kind: str, api_version: str, **limits: str) -> JsonObject:
    """Return an object that makes such pods."""
    template: JsonObject = {"metadata": {"labels": {"app": "a"}}, "spec": pod_spec(**limits)}
    spec: JsonObject = {"selector": {"matchLabels": {"app": "a"}}, "template": template}
    if kind == "CronJob":
        spec = {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": template}}}
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "app"}, "spec": spec}
