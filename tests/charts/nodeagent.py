"""What the chart says of the node agent, read as kubelet, the scheduler and the program read it."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from cli.nodeagent.settings import NodeAgentSettings
from tests.charts.rendering import Object, container, merged, nested, of_kind, one, render

NAME: Final = "gpuslice-node-agent"
CLIENT: Final = "nvidia.com/gpu.deploy.client"
LIBRARY: Final = {"library": {"image": {"repository": "hami", "tag": "v2.9.0"}}}
_NO_KEYS: Final = nested("scheduler.refit.tls", {"mode": "secret", "secret": {"name": "refit"}})


def rendered(values: Mapping[str, Any] | None = None, **options: Any) -> list[Object]:
    """Return the chart's objects, without keys made for them, which take most of the time."""
    return render(merged(_NO_KEYS, values or {}), **options)


def daemon_set(values: Mapping[str, Any] | None = None, **options: Any) -> Object:
    """Return the node agent's DaemonSet."""
    return one(rendered(values, **options), "DaemonSet", NAME)


def settings(values: Mapping[str, Any] | None = None, **options: Any) -> NodeAgentSettings:
    """Return what the program makes of its arguments; those that it refuses end the test."""
    program, *flags = container(daemon_set(values, **options), "node-agent")["args"]
    assert program == "node-agent"
    return NodeAgentSettings.from_arguments(["--node-name=node-1", *flags], program=program)


def pod_spec(agent: Object) -> Object:
    """Return the spec of its pods."""
    return dict(agent["spec"]["template"]["spec"])


def mounts(agent: Object, name: str = "node-agent") -> dict[str, Object]:
    """Return by path what a container sees: the mount and its volume in one mapping."""
    volumes = {each["name"]: each for each in agent["spec"]["template"]["spec"]["volumes"]}
    return {
        each["mountPath"]: {**volumes[each["name"]], **each}
        for each in container(agent, name)["volumeMounts"]
    }


def host_paths(agent: Object) -> dict[str, str]:
    """Return by path in the container the host's path of each mount of it."""
    found = mounts(agent)
    return {path: each["hostPath"]["path"] for path, each in found.items() if "hostPath" in each}


def places(agent: Object) -> list[Object]:
    """Return the terms of which a node has to fit one; empty if any node will do."""
    affinity = agent["spec"]["template"]["spec"].get("affinity", {})
    required = affinity.get("nodeAffinity", {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution", {}
    )
    return list(required.get("nodeSelectorTerms", []))


def goes_to(agent: Object, labels: Mapping[str, str]) -> bool:
    """Return whether the scheduler puts a pod on a node with *labels*, by its affinity."""
    terms = places(agent)
    return not terms or any(_fits(term, labels) for term in terms)


def _fits(term: Object, labels: Mapping[str, str]) -> bool:
    expressions: Sequence[Object] = term.get("matchExpressions", [])
    # A term without anything fits no node.
    return bool(expressions) and all(_holds(each, labels) for each in expressions)


def _holds(expression: Object, labels: Mapping[str, str]) -> bool:
    value = labels.get(expression["key"])
    match expression["operator"]:
        case "In":
            return value in expression["values"]
        case "NotIn":
            return value not in expression["values"]
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case other:
            raise AssertionError(other)


def rights(objects: Sequence[Object], *, account: str = NAME) -> set[tuple[str, str, str]]:
    """Return (group, resource, verb) of all that roles bound to the account let it do.

    A right to named objects has their names behind the resource: `resourceclaims/driver=x`.
    """
    roles = {each["metadata"]["name"]: each for each in of_kind(objects, "ClusterRole")}
    bound = [
        roles[each["roleRef"]["name"]]
        for each in of_kind(objects, "ClusterRoleBinding")
        if account in {subject["name"] for subject in each["subjects"]}
    ]
    return {
        (group, resource + "".join(f"={name}" for name in rule.get("resourceNames", [])), verb)
        for role in bound
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
