"""Rows for the resource names of NVIDIA's GPUs and for variables of containers."""

from collections.abc import Iterator
from typing import Any, Final

from tests.webhook.legacy_row import Outcome, Row, capacity, either, exactly, main_has, with_limits
from webhook.uncontrolled import LABEL, LABEL_VALUE

GPU: Final = "nvidia.com/gpu"
MEMORY: Final = "nvidia.com/gpumem"
PERCENT: Final = "nvidia.com/gpumem-percentage"
CORES: Final = "nvidia.com/gpucores"
PRIORITY: Final = "nvidia.com/priority"
SHARE: Final = "share.gpuslice.io"
WHOLE: Final = "gpu.gpuslice.io"


def share(memory: str, cores: str = "0", **more: Any) -> Any:
    """Return a claim for a share of that size."""
    asked = capacity(memory=memory, cores=cores)
    return exactly(deviceClassName=SHARE, capacity=asked, **more)


def _refused(code: str, says: str) -> dict[str, Any]:
    """Return the same refusal in both modes."""
    said = Outcome(says=says, refused=code)
    return {"dra": said, "hami": said}


def resource_rows() -> Iterator[Row]:
    """Yield the rows of the five resource names."""
    yield Row(
        name="whole GPUs",
        keys=(GPU,),
        given=f"`{GPU}: 2`",
        limits={GPU: "2"},
        dra=Outcome(
            says="one request of class `gpu.gpuslice.io` with `count: 2`: two different GPUs",
            claim=exactly(deviceClassName=WHOLE, count=2, capacity=capacity(cores="100")),
            pod=main_has(resources={"limits": {GPU: ...}, "claims": [{"name": "gpu-main"}]}),
        ),
        hami=Outcome(
            says=f"`{CORES}: 100` is added, because all memory means all cores",
            pod=with_limits({GPU: "2", CORES: "100"}),
        ),
    )
    yield Row(
        name="half a GPU in the count",
        keys=(GPU,),
        given=f"`{GPU}: 500m`",
        limits={GPU: "500m"},
        **_refused("AmountNotWhole", f"refused; the answer names `{PERCENT}: 50`"),
    )
    yield Row(
        name="memory",
        keys=(MEMORY,),
        given=f"`{MEMORY}: 3000`",
        limits={GPU: "1", MEMORY: "3k"},
        dra=Outcome(says='share of `memory: 3000Mi`, `cores: "0"`', claim=share("3000Mi")),
        hami=Outcome(says="stays", pod=with_limits({MEMORY: "3k"})),
    )
    yield Row(
        name="memory with a binary suffix",
        keys=(MEMORY,),
        given=f"`{MEMORY}: 3Gi`",
        limits={GPU: "1", MEMORY: "3Gi"},
        dra=Outcome(
            says="read as bytes, with a warning: `memory: 3Gi`",
            claim=share("3Gi"),
            warned="MemoryReadAsBytes",
        ),
        hami=Outcome(
            says="becomes `3072`, with a warning",
            pod=with_limits({MEMORY: "3072"}),
            warned="MemoryReadAsBytes",
        ),
    )
    yield Row(
        name="memory with a decimal suffix",
        keys=(MEMORY,),
        given=f"`{MEMORY}: 16G`",
        limits={GPU: "1", MEMORY: "16G"},
        **_refused("MemoryTooLarge", "refused: 16,000,000,000 MiB; `16Gi` or `16384` is offered"),
    )
    yield Row(
        name="percentage",
        keys=(PERCENT,),
        given=f"`{PERCENT}: 50`",
        limits={GPU: "1", PERCENT: "50"},
        dra=Outcome(
            says="an alternative for each size of GPU in the cluster, rounded down to MiB",
            claim=either({"capacity": capacity(memory="12282Mi", cores="0")}),
        ),
        hami=Outcome(says="stays", pod=with_limits({PERCENT: "50"})),
    )
    yield Row(
        name="percentage beside memory",
        keys=(PERCENT, MEMORY),
        given=f"`{PERCENT}: 50`, `{MEMORY}: 3000`",
        limits={GPU: "1", PERCENT: "50", MEMORY: "3k"},
        dra=Outcome(
            says="MiB count, with a warning",
            claim=share("3000Mi"),
            warned="PercentageIgnored",
        ),
        hami=Outcome(says="MiB count, with a warning", warned="PercentageIgnored"),
    )
    yield Row(
        name="cores",
        keys=(CORES,),
        given=f"`{CORES}: 30`, `{MEMORY}: 3000`",
        limits={GPU: "1", MEMORY: "3k", CORES: "30"},
        dra=Outcome(says='`cores: "30"`', claim=share("3000Mi", "30")),
        hami=Outcome(says="stays", pod=with_limits({CORES: "30"})),
    )
    yield Row(
        name="cores without a count",
        keys=(CORES, GPU),
        given=f"`{CORES}: 30` alone",
        limits={CORES: "30"},
        dra=Outcome(
            says="one GPU, 30 % of its cores and the site's default of memory, with a warning",
            claim=exactly(deviceClassName=WHOLE),
            warned="MemoryIsDefault",
        ),
        hami=Outcome(
            says=f"`{GPU}: 1` is added, with a warning",
            pod=with_limits({GPU: "1", CORES: "30"}),
            warned="MemoryIsDefault",
        ),
    )
    yield Row(
        name="priority",
        keys=(PRIORITY,),
        given=f"`{PRIORITY}: 0`, `{CORES}: 30`, `{MEMORY}: 3000`",
        limits={GPU: "1", MEMORY: "3k", CORES: "30", PRIORITY: "0"},
        dra=Outcome(
            says="`priority: 0` in the claim's ShareConfig",
            claim={"devices": {"config": [{"opaque": {"parameters": {"priority": 0}}}]}},
            pod=main_has(resources={"limits": {PRIORITY: ...}}),
        ),
        hami=Outcome(
            says="variable `CUDA_TASK_PRIORITY`",
            pod=main_has(env=[{"name": "CUDA_TASK_PRIORITY", "value": "0"}]),
        ),
    )
    yield Row(
        name="priority alone",
        keys=(PRIORITY,),
        given=f"`{PRIORITY}: 1` without a GPU",
        limits={PRIORITY: "1"},
        dra=Outcome(says="a warning: no effect without a GPU", warned="PriorityWithoutGpu"),
        hami=Outcome(says="a warning: no effect without a GPU", warned="PriorityWithoutGpu"),
    )
    yield from _control_rows()


def _control_rows() -> Iterator[Row]:
    """Yield the rows of the variable by which a container opts out of its limits."""
    key = "CUDA_DISABLE_CONTROL"
    more = {"env": [{"name": key, "value": "true"}]}
    yield Row(
        name="opting out with a share",
        keys=(key,),
        given=f"variable `{key}: true` beside a share",
        limits={GPU: "1", MEMORY: "3k"},
        more=more,
        **_refused("ControlDisabled", "refused, unless the namespace is allowed to"),
    )
    none: Any = {"opaque": {"parameters": {"enforcement": "none"}}}
    yield Row(
        name="opting out with a share where that is allowed",
        keys=(key,),
        given=f"the same in a namespace with the label `{LABEL}: {LABEL_VALUE}`",
        limits={GPU: "1", MEMORY: "3k"},
        more=more,
        namespace_labels={LABEL: LABEL_VALUE},
        dra=Outcome(
            says="`enforcement: none` in the claim's ShareConfig, which node agents must allow "
            "there too (`--unlimited-namespaces`)",
            claim={"devices": {"config": [none]}},
            pod=main_has(**more),
        ),
        hami=Outcome(says="stays, for HAMi's device plugin", pod=main_has(**more)),
    )
    yield Row(
        name="opting out with a whole GPU",
        keys=(key,),
        given=f"variable `{key}: true` beside a whole GPU",
        limits={GPU: "1"},
        more=more,
        dra=Outcome(says="stays: nothing is limited anyway", pod=main_has(**more)),
        hami=Outcome(says="stays, for HAMi's device plugin", pod=main_has(**more)),
    )
