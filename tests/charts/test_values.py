"""What the values may be: the schema, the reference and values.yaml say the same."""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from charts.values import reference, schema
from charts.values.programs import PROGRAMS, Program
from charts.values.tree import Values
from charts.values.written import defaults
from tests.charts.rendering import CHART, RefusedError, nested, render, run


def _keys(part: dict[str, Any], before: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    for key, inner in schema.known(part).items():
        yield before + key, inner
        yield from _keys(inner, f"{before}{key}.")


def _paths(part: dict[str, Any], before: str = "") -> Iterator[str]:
    for key, inner in part.items():
        yield before + key
        if isinstance(inner, dict):
            yield from _paths(inner, f"{before}{key}.")


def test_the_schema_is_fresh() -> None:
    """values.schema.json is what the models and values.yaml make; `make manifests` writes it."""
    assert schema.FILE.read_text() == schema.text()


def test_the_reference_is_fresh() -> None:
    """docs/values.md is what the models and values.yaml make; `make manifests` writes it."""
    assert reference.FILE.read_text() == reference.text()


def test_the_models_have_the_defaults_of_values_yaml() -> None:
    """No key is in one of them alone, and none has two defaults."""
    assert Values().model_dump(by_alias=True, exclude={"global_"}) == defaults()


def test_values_yaml_is_valid() -> None:
    """The chart's own values pass its schema, which is one of draft 7."""
    document = json.loads(schema.FILE.read_text())
    jsonschema.Draft7Validator.check_schema(document)
    jsonschema.validate(defaults(), document, cls=jsonschema.Draft7Validator)


def test_every_value_says_what_it_means() -> None:
    """Each key that a user may write has a description, also each setting of a program."""
    document = schema.document()
    assert [path for path, key in _keys(document) if not key.get("description")] == []
    assert {path for path, _ in _keys(document)} >= set(_paths(_known(defaults(), document)))


def _known(values: dict[str, Any], part: dict[str, Any]) -> dict[str, Any]:
    """Return *values* without what is inside of mappings with free keys."""
    if "properties" not in part:
        return {}
    return {
        key: _known(inner, part["properties"][key]) if isinstance(inner, dict) else inner
        for key, inner in values.items()
    }


def test_every_mapping_with_known_keys_refuses_others() -> None:
    """A misspelt key is found before anything is rendered."""
    open_ones = [
        path
        for path, key in _keys(schema.document())
        if "properties" in key and key.get("additionalProperties") is not False
    ]
    assert open_ones == []
    assert schema.document()["additionalProperties"] is False


@pytest.mark.parametrize("helm", [3, 4])
@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("webhok", {}, "webhok"),
        ("webhook.replica", 2, "replica"),
        ("webhook.replicas", 0, "replicas"),
        ("kubeletPlugin.settings.minimumShareMib", 0, "minimumShareMib"),
        ("kubeletPlugin.settings.nodeName", "a", "nodeName"),
        ("kubeletPlugin.tolerations", [{"kee": "a"}], "kee"),
        ("webhook.resources", {"limit": {}}, "limit"),
        ("mode", "both", "mode"),
        ("deviceConfig.sections", {"nvidia": {"resourceCoutName": "a/b"}}, "resourceCoutName"),
        ("deviceConfig.sections", {"nvidea": {}}, "nvidea"),
        ("image.digest", "sha256:1", "digest"),
    ],
)
def test_helm_refuses_what_the_schema_does(helm: int, path: str, value: Any, said: str) -> None:
    """Both majors of helm read the schema, also where it refers to Kubernetes' own."""
    with pytest.raises(RefusedError, match=said):
        render(nested(path, value), helm=helm)


@pytest.mark.parametrize("helm", [3, 4])
def test_the_chart_can_be_a_part_of_another(tmp_path: Path, helm: int) -> None:
    """Below another chart its values pass the schema with `global`, which helm adds to them."""
    parent = tmp_path / "parent"
    shutil.copytree(CHART, parent / "charts" / "gpuslice")
    chart = {"apiVersion": "v2", "name": "parent", "version": "1.0.0"}
    (parent / "Chart.yaml").write_text(yaml.safe_dump(chart))
    values = {"global": {"domain": "example.com"}, "gpuslice": {"mode": "dra"}}
    (parent / "values.yaml").write_text(yaml.safe_dump(values))
    output = run(
        helm,
        *("template", "all", str(parent), "--namespace", "gpus", "--kube-version", "1.37.0"),
    )
    assert "name: all-gpuslice-node-agent" in output


def test_patterns_are_of_the_kind_that_every_helm_reads() -> None:
    """Go's expressions have no looking ahead or back, and no references."""
    patterns = set(re.findall(r'"pattern": "(.*)"', schema.text()))
    assert patterns
    assert [each for each in patterns if "(?" in each or re.search(r"\\\\[1-9]", each)] == []


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda each: each.name)
def test_the_chart_leaves_out_settings_that_there_are(program: Program) -> None:
    """Nothing is left out or refined that the program does not have, and not without a reason."""
    fields = set(program.model.model_fields)
    assert {*program.left_out, *program.choices} <= fields
    assert not {*program.left_out} & {*program.choices}
    assert all(program.left_out.values())
    assert {*program.settings().model_fields} == fields - {*program.left_out}
