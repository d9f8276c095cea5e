"""`gpuslice convert`: claims instead of limits, in everything that makes pods."""

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from kube.objects import JsonObject
from tests.cli.convert.running import a_pod, a_workload, convert, converted, pod_spec
from tests.hami.chartconfig import chart_config

KINDS = {
    "Deployment": "apps/v1",
    "StatefulSet": "apps/v1",
    "DaemonSet": "apps/v1",
    "ReplicaSet": "apps/v1",
    "Job": "batch/v1",
    "CronJob": "batch/v1",
    "ReplicationController": "v1",
}


def spec_in(item: JsonObject) -> JsonObject:
    """Return the pod spec of a workload."""
    found = item["spec"]
    if item["kind"] == "CronJob":
        found = found["jobTemplate"]["spec"]
    spec: JsonObject = found if item["kind"] == "Pod" else found["template"]["spec"]
    return spec


def capacity_of(template: JsonObject) -> dict[str, str]:
    """Return what the only request of a template asks for."""
    (request,) = template["spec"]["spec"]["devices"]["requests"]
    asked: dict[str, str] = request["exactly"]["capacity"]["requests"]
    return asked


def test_pod_gets_a_claim_and_a_template(tmp_path: Path) -> None:
    """Limits leave the pod, and a template with a readable name holds what they asked."""
    ended = converted(tmp_path, a_pod(gpu="1", gpumem="3000", gpucores="30"))
    assert ended.status == 0
    template, pod = ended.items
    assert template["kind"] == "ResourceClaimTemplate"
    assert template["metadata"]["name"].startswith("app-")
    assert capacity_of(template) == {"memory": "3000Mi", "cores": "30"}
    (entry,) = pod["spec"]["resourceClaims"]
    assert entry["resourceClaimTemplateName"] == template["metadata"]["name"]
    (container,) = pod["spec"]["containers"]
    assert container["resources"] == {"claims": [{"name": entry["name"]}]}
    assert pod["metadata"] == {"name": "app"}
    for each in (template, pod):
        kubernetes_validate.validate(each, "1.37", strict=True)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_that_makes_pods(tmp_path: Path, kind: str) -> None:
    """The pod template of each of Kubernetes' workloads is converted, and stays valid."""
    ended = converted(tmp_path, a_workload(kind, KINDS[kind], gpu="1", gpumem="3000"))
    assert ended.status == 0
    template, workload = ended.items
    assert capacity_of(template) == {"memory": "3000Mi", "cores": "0"}
    assert spec_in(workload)["resourceClaims"]
    if kind != "ReplicationController":
        kubernetes_validate.validate(template, "1.37", strict=True)
    assert "nvidia.com" not in ended.output


def test_other_objects_stay_as_they_are(tmp_path: Path) -> None:
    """Objects without pods, pods without GPUs and unknown kinds are printed unchanged."""
    others: list[JsonObject] = [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "a"},
            "data": {"k": "a\nb\n"},
        },
        a_pod(),
        {"apiVersion": "example.com/v1", "kind": "Deployment", "spec": {"template": "text"}},
        {"kind": "Odd", "more": [1, None, True, 1.5, {"a": []}]},
        {"apiVersion": "apps/v1", "kind": "Deployment", "spec": None},
    ]
    ended = converted(tmp_path, *others)
    assert ended.status == 0
    assert ended.items == others
    assert "warning" not in ended.output


def test_unknown_kind_with_gpus_is_told(tmp_path: Path) -> None:
    """A kind that may make pods, but is not known here, is left and warned about."""
    job = {"apiVersion": "example.com/v1", "kind": "TrainJob", "metadata": {"name": "a"}}
    ended = converted(tmp_path, {**job, "spec": {"pod": pod_spec(gpu="1")}})
    assert ended.status == 0
    assert "# warning: TrainJob/a: nvidia.com/gpu: pods of this kind are not known" in ended.output


def test_list_holds_the_templates(tmp_path: Path) -> None:
    """In a List, also one within another, templates stand before what names them."""
    inner = {"apiVersion": "v1", "kind": "List", "items": [a_pod("two", gpu="1", gpumem="2000")]}
    outer = {**inner, "items": [a_pod("one", gpu="1", gpumem="1000"), inner]}
    (found,) = converted(tmp_path, outer).items
    kinds = [each["kind"] for each in found["items"]]
    assert kinds == ["ResourceClaimTemplate", "Pod", "List"]
    assert [each["kind"] for each in found["items"][2]["items"]] == ["ResourceClaimTemplate", "Pod"]


def test_names_of_templates_are_told_apart(tmp_path: Path) -> None:
    """Two objects of one name get two templates for two amounts, and share one for the same."""
    ended = converted(
        tmp_path,
        a_pod(gpu="1", gpumem="1000"),
        a_workload("Job", "batch/v1", gpu="1", gpumem="2000"),
        a_workload("Deployment", "apps/v1", gpu="1", gpumem="1000"),
    )
    amounts: dict[str, set[str]] = {}
    for template in ended.of_kind("ResourceClaimTemplate"):
        memory = capacity_of(template)["memory"]
        amounts.setdefault(template["metadata"]["name"], set()).add(memory)
    assert sorted(amounts.values(), key=str) == [{"1000Mi"}, {"2000Mi"}]


def test_long_names_become_valid_ones(tmp_path: Path) -> None:
    """However long names are, those of templates and claims are names of Kubernetes."""
    pod = a_pod(".".join(["a" * 60] * 4), gpu="1", gpumem="1000")
    pod["spec"]["containers"][0]["name"] = "c" * 63
    pod["metadata"]["namespace"] = "team-red"
    template, found = converted(tmp_path, pod).items
    assert len(template["metadata"]["name"]) <= 253
    assert len(found["spec"]["resourceClaims"][0]["name"]) <= 63
    assert template["metadata"]["namespace"] == "team-red"
    kubernetes_validate.validate(template, "1.37", strict=True)


def test_refusal_prints_nothing(tmp_path: Path) -> None:
    """What the webhook would refuse ends with status 1 and all reasons, and no half of the rest."""
    bad = a_pod("bad", gpu="500m")
    named = a_pod("named", gpu="1", gpumem="1000")
    named["spec"]["nodeName"] = "node-a"
    ended = converted(tmp_path, a_pod(gpu="1"), bad, named)
    assert ended.status == 1
    assert ended.output == ""
    assert "refused: Pod/bad: AmountNotWhole" in ended.errors
    assert "refused: Pod/named: NodeAssigned: spec.nodeName" in ended.errors


def test_what_is_nearly_a_pod_is_refused(tmp_path: Path) -> None:
    """Something else where a pod has objects is told, and is no failure of the command."""
    pod = a_pod(gpu="1", gpumem="1000")
    for odd in ({"metadata": "app"}, {"metadata": ["app"]}):
        ended = converted(tmp_path, pod | odd)
        assert ended.status == 1
        assert "PodMalformed" in ended.errors
    for claims in ([None], ["x"], [{"resourceClaimTemplateName": [1]}]):
        spec = pod["spec"] | {"resourceClaims": claims}
        assert converted(tmp_path, pod | {"spec": spec}).status == 0
    deployment = a_workload("Deployment", "apps/v1", gpu="1") | {"metadata": 0.5}
    assert converted(tmp_path, deployment).status == 0


def test_percentage_needs_sizes(tmp_path: Path) -> None:
    """A percentage is of the sizes that are given; without any it cannot be converted."""
    pod = a_pod(gpu="1", gpumem_percentage="50")
    ended = converted(tmp_path, pod)
    assert ended.status == 1
    assert "NoSizesKnown" in ended.errors
    ended = converted(tmp_path, pod, words=("--sizes", "24564,81559"))
    (template,) = ended.of_kind("ResourceClaimTemplate")
    (request,) = template["spec"]["spec"]["devices"]["requests"]
    amounts = {each["capacity"]["requests"]["memory"] for each in request["firstAvailable"]}
    assert amounts == {"12282Mi", "40779Mi"}


def test_names_of_resources_come_from_hamis_configuration(tmp_path: Path) -> None:
    """A site that has renamed the resources converts with its own device-config.yaml."""
    config = tmp_path / "device-config.yaml"
    config.write_text(chart_config(resourceMemoryName="example.com/mem", memoryFactor=1024, odd=1))
    pod = a_pod(gpu="1")
    pod["spec"]["containers"][0]["resources"]["limits"]["example.com/mem"] = "2"
    ended = converted(tmp_path, pod, words=("--device-config", str(config)))
    (template,) = ended.of_kind("ResourceClaimTemplate")
    assert capacity_of(template)["memory"] == "2Gi"
    assert "UnknownKey" in ended.errors


def test_warnings_are_comments(tmp_path: Path) -> None:
    """What has no effect is told above the object that it is about."""
    pod = a_pod(gpu="1", gpumem="3Gi", gpucores="30")
    pod["spec"]["schedulerName"] = "hami-scheduler"
    ended = converted(tmp_path, pod)
    head = ended.output.rpartition("---")[2]
    assert "# warning: Pod/app: " in head
    assert "read as 3072 MiB" in head
    assert "schedulerName: hami-scheduler stays" in head


def test_annotations_in_the_wrong_place_are_told(tmp_path: Path) -> None:
    """Pods get the annotations of their template alone."""
    deployment = a_workload("Deployment", "apps/v1", gpu="1")
    deployment["metadata"]["annotations"] = {"nvidia.com/use-gpuuuid": "GPU-1", "a": "b"}
    ended = converted(tmp_path, deployment)
    where = "is on the Deployment; move it to spec.template.metadata"
    assert f"annotation nvidia.com/use-gpuuuid {where}" in ended.output
    pod = a_pod(gpu="1")
    pod["metadata"]["annotations"] = {"nvidia.com/use-gputype": "A10"}
    assert "move it" not in converted(tmp_path, pod).output


def test_variables_that_undo_limits_are_refused(tmp_path: Path) -> None:
    """What the webhook does not let into a container with a share is refused here, too."""
    pod = a_pod(gpu="1", gpumem="1000")
    pod["spec"]["containers"][0]["env"] = [{"name": "LD_PRELOAD", "value": "/x.so"}]
    ended = converted(tmp_path, pod)
    assert ended.status == 1
    assert "LimitVariable" in ended.errors


def test_annotations_of_the_scheduler_are_told(tmp_path: Path) -> None:
    """A manifest that was taken from a cluster carries what the webhook will not admit."""
    pod = a_pod(gpu="1", gpumem="1000")
    pod["metadata"]["annotations"] = {"hami.io/vgpu-node": "node-a"}
    ended = converted(tmp_path, pod)
    assert ended.status == 0
    assert "annotations hami.io/vgpu-node: only schedulers may write them" in ended.output


def test_other_vendors_are_left(tmp_path: Path) -> None:
    """Devices of other vendors keep their limits: HAMi's scheduler serves them."""
    config = tmp_path / "device-config.yaml"
    named = {"resourceCountName": "cambricon.com/vmlu"}
    config.write_text(chart_config() + yaml.safe_dump({"cambricon": named}))
    pod = a_pod(gpu="1", gpumem="1000")
    limits = {"cambricon.com/vmlu": "1"}
    pod["spec"]["containers"].append(
        {"name": "mlu", "image": "image:1", "resources": {"limits": limits}}
    )
    for words, told in (((), False), (("--device-config", str(config)), True)):
        ended = converted(tmp_path, pod, words=words)
        (found,) = ended.of_kind("Pod")
        assert found["spec"]["containers"][1]["resources"] == {"limits": limits}
        assert ("# warning: Pod/app: MLU: not NVIDIA's" in ended.output) == told


def test_json_is_one_list(tmp_path: Path) -> None:
    """For programs everything is one List, and warnings go elsewhere."""
    ended = converted(tmp_path, a_pod(gpu="1", gpumem="3Gi"), words=("--json",))
    found = json.loads(ended.output)
    assert [each["kind"] for each in found["items"]] == ["ResourceClaimTemplate", "Pod"]
    assert "warning: Pod/app: " in ended.errors


def test_stdin_is_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """A dash reads what is piped in, in YAML or JSON."""
    monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps(a_pod(gpu="1", gpumem="1000"))))
    assert convert("-").of_kind("ResourceClaimTemplate")


@pytest.mark.parametrize(
    "text", ["a: [", "- a\n- list\n", "text", "? {}\n: a\n", "a: &a [*a]\n", "\0"]
)
def test_what_is_no_manifest_is_told(tmp_path: Path, text: str) -> None:
    """A file without objects ends with status 2 and its name."""
    file = tmp_path / "bad.yaml"
    file.write_text(text)
    ended = convert(str(file))
    assert ended.status == 2
    assert ended.errors.startswith(f"error: {file}: ")


def test_missing_files_are_told(tmp_path: Path) -> None:
    """Files that are not there, or are no text, end with status 2."""
    assert convert(str(tmp_path / "none.yaml")).status == 2
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    assert convert(str(tmp_path / "binary")).status == 2
    pod = tmp_path / "pod.yaml"
    pod.write_text("{}")
    assert convert(str(pod), "--device-config", str(tmp_path / "none.yaml")).status == 2
    (tmp_path / "config.yaml").write_text("a: [")
    assert convert(str(pod), "--device-config", str(tmp_path / "config.yaml")).status == 2


@pytest.mark.parametrize("sizes", ["0", "-1", "many", ""])
def test_sizes_are_amounts(sizes: str) -> None:
    """Sizes are MiB, and what is none is a mistake in the command."""
    with pytest.raises(SystemExit):
        convert("-", f"--sizes={sizes}")


def test_program_prints_the_claims_form(tmp_path: Path) -> None:
    """The command is a word of `gpuslice`."""
    file = tmp_path / "pod.yaml"
    file.write_text(yaml.safe_dump(a_pod(gpu="1", gpumem="1000")))
    command = [sys.executable, "-m", "cli.main", "convert", str(file)]
    done = subprocess.run(command, capture_output=True, check=True, text=True)  # noqa: S603
    found: list[Any] = list(yaml.safe_load_all(done.stdout))
    assert [each["kind"] for each in found] == ["ResourceClaimTemplate", "Pod"]
