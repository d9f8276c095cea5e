"""Rows for the section `nvidia` of HAMi's `device-config.yaml`."""

from collections.abc import Iterator
from typing import Any, Final

from tests.webhook.legacy_row import Outcome, Row, capacity, either, main_has, with_limits
from tests.webhook.legacy_rows_nvidia import CORES, GPU, MEMORY, PERCENT, PRIORITY, share

_NAMES: Final = {
    "resourceCountName": (GPU, {"gpu": "1", MEMORY: "3k"}),
    "resourceMemoryName": (MEMORY, {GPU: "1", "gpumem": "3k"}),
    "resourceMemoryPercentageName": (PERCENT, {GPU: "1", "gpumem-percentage": "50"}),
    "resourceCoreName": (CORES, {GPU: "1", MEMORY: "3k", "gpucores": "30"}),
    "resourcePriorityName": (PRIORITY, {GPU: "1", MEMORY: "3k", CORES: "30", "priority": "1"}),
}
"""The default name, and limits with another one, to come below `example.com/`."""
_CLAIMS: Final[dict[str, Any]] = {
    "resourceCountName": share("3000Mi"),
    "resourceMemoryName": share("3000Mi"),
    "resourceMemoryPercentageName": either({"capacity": capacity(memory="12282Mi")}),
    "resourceCoreName": share("3000Mi", "30"),
    "resourcePriorityName": {"devices": {"config": [{"opaque": {"parameters": {"priority": 1}}}]}},
}


def nvidia_config_rows() -> Iterator[Row]:
    """Yield a row for each key."""
    yield from (_renamed(key) for key in _NAMES)
    yield from _default_rows()
    yield from _container_rows()
    inert = Outcome(says="nothing at admission: the device plugin's")
    for key, value in {
        "deviceSplitCount": 4,
        "deviceMemoryScaling": 2,
        "deviceCoreScaling": 2,
        "preConfiguredDeviceMemory": 1024,
        "enableNumaTopology": True,
        "libCudaLogLevel": 4,
        "disableCoreLimit": True,
        "migProfileAllowlist": [{"models": ["A30"], "profiles": ["1g.6gb"]}],
    }.items():
        yield Row(
            name=key,
            keys=(f"nvidia.{key}",),
            given=f"`{key}`",
            limits={GPU: "1", MEMORY: "3k", CORES: "30"},
            sections={"nvidia": {key: value}},
            dra=inert,
            hami=inert,
            inert=True,
        )


def _renamed(key: str) -> Row:
    default, said = _NAMES[key]
    limits = {name if "/" in name else f"example.com/{name}": text for name, text in said.items()}
    (renamed,) = (name for name in limits if name.startswith("example.com/"))
    if renamed.endswith("gpu"):
        limits = {renamed: limits[renamed], **limits}
    return Row(
        name=key,
        keys=(f"nvidia.{key}",),
        given=f"`{key}: {renamed}` for `{default}`",
        limits=limits,
        sections={"nvidia": {key: renamed}},
        dra=Outcome(
            says="read under this name, and removed under it",
            claim=_CLAIMS[key],
            pod=main_has(resources={"limits": {renamed: ...}, "requests": {renamed: ...}}),
        ),
        hami=Outcome(
            says="read under this name", pod={"spec": {"schedulerName": "hami-scheduler"}}
        ),
    )


def _default_rows() -> Iterator[Row]:
    yield Row(
        name="defaultMemory",
        keys=("nvidia.defaultMemory",),
        given="`defaultMemory: 4000`, a pod with a count alone",
        limits={GPU: "1"},
        sections={"nvidia": {"defaultMemory": 4000}},
        dra=Outcome(
            says="share of `memory: 4000Mi`; its cores are those of a container that names no"
            " memory: all",
            claim=share("4000Mi", "100"),
        ),
        hami=Outcome(
            says="HAMi's scheduler applies it; its cores are written",
            pod=with_limits({CORES: "100", MEMORY: ...}),
        ),
    )
    yield Row(
        name="defaultCores",
        keys=("nvidia.defaultCores",),
        given="`defaultCores: 20`, a pod without cores",
        limits={GPU: "1", MEMORY: "3k"},
        sections={"nvidia": {"defaultCores": 20}},
        dra=Outcome(says='`cores: "20"`', claim=share("3000Mi", "20")),
        hami=Outcome(says="HAMi's scheduler applies it", pod=with_limits({CORES: ...})),
    )
    yield Row(
        name="defaultGPUNum",
        keys=("nvidia.defaultGPUNum",),
        given="`defaultGPUNum: 2`, a pod without a count",
        limits={MEMORY: "3k"},
        sections={"nvidia": {"defaultGPUNum": 2}},
        dra=Outcome(says="two shares", claim=share("3000Mi", count=2)),
        hami=Outcome(says="the count is written", pod=with_limits({GPU: "2"})),
    )
    refused = Outcome(says="refused: the count is missing", refused="CountMissing")
    yield Row(
        name="defaultGPUNum 0",
        keys=("nvidia.defaultGPUNum",),
        given="`defaultGPUNum: 0`, a pod without a count",
        limits={MEMORY: "3k"},
        sections={"nvidia": {"defaultGPUNum": 0}},
        dra=refused,
        hami=refused,
    )
    yield Row(
        name="memoryFactor",
        keys=("nvidia.memoryFactor",),
        given=f"`memoryFactor: 1024`, `{MEMORY}: 2`",
        limits={GPU: "1", MEMORY: "2"},
        sections={"nvidia": {"memoryFactor": 1024}},
        dra=Outcome(says="share of `memory: 2Gi`", claim=share("2Gi")),
        hami=Outcome(says="stays: HAMi's scheduler multiplies", pod=with_limits({MEMORY: "2"})),
    )


_MORE: Final = {"disable": "; node agents must allow it (`--unlimited-namespaces '*'`)"}


def _container_rows() -> Iterator[Row]:
    for policy in ("force", "disable"):
        yield Row(
            name=f"gpuCorePolicy {policy}",
            keys=("nvidia.gpuCorePolicy",),
            given=f"`gpuCorePolicy: {policy}`",
            limits={GPU: "1", MEMORY: "3k", CORES: "30"},
            sections={"nvidia": {"gpuCorePolicy": policy}},
            dra=Outcome(
                says=f"`corePolicy: {policy}` in the claim's ShareConfig{_MORE.get(policy, '')}",
                claim={"devices": {"config": [{"opaque": {"parameters": {"corePolicy": policy}}}]}},
            ),
            hami=Outcome(
                says="variable `GPU_CORE_UTILIZATION_POLICY`",
                pod=main_has(env=[{"name": "GPU_CORE_UTILIZATION_POLICY", "value": policy}]),
            ),
        )
    for name, limits, says, expected in (
        ("runtimeClassName", {GPU: "1"}, "written where the pod names none", "nvidia"),
        ("runtimeClassName without GPU", {}, "not written into pods without a GPU", ...),
    ):
        outcome = Outcome(says=says, pod={"spec": {"runtimeClassName": expected}})
        yield Row(
            name=name,
            keys=("nvidia.runtimeClassName",),
            given="`runtimeClassName: nvidia`",
            limits=limits,
            sections={"nvidia": {"runtimeClassName": "nvidia"}},
            dra=outcome,
            hami=outcome,
        )
    hidden = {"name": "NVIDIA_VISIBLE_DEVICES", "value": "none"}
    blind = Outcome(says="variable `NVIDIA_VISIBLE_DEVICES: none`", pod=main_has(env=[hidden]))
    yield Row(
        name="overwriteEnv",
        keys=("nvidia.overwriteEnv",),
        given="`overwriteEnv: true`, a container without a GPU",
        sections={"nvidia": {"overwriteEnv": True}},
        dra=blind,
        hami=blind,
    )
    seeing = Outcome(says="no variable", pod=main_has(env=...))
    yield Row(
        name="overwriteEnv with a GPU",
        keys=("nvidia.overwriteEnv",),
        given="`overwriteEnv: true`, a container with a GPU",
        limits={GPU: "1"},
        sections={"nvidia": {"overwriteEnv": True}},
        dra=seeing,
        hami=seeing,
    )
