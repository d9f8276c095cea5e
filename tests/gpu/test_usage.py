"""What a GPU does is read figure by figure, and one that fails hides no other."""

import pytest

from gpu.model import GpuUuid
from gpu.nvml import Nvml
from gpu.usage import Figure, GpuProcess, GpuUsage, read_usage
from tests.gpu.simulating import simulated

MIB = 2**20
BUSY = """
gpus:
- profile: a10
  uuid: GPU-a
  utilization_percent: 130
  memory_utilization_percent: 7
  processes:
  - {pid: 41, memory_mib: 512}
  - {pid: 42, memory_mib: null}
  - {pid: 41, memory_mib: 512, graphics: true}
  - {pid: 43, memory_mib: 3, graphics: true}
"""


def usages(text: str) -> tuple[GpuUsage, ...]:
    """Read what the GPUs of *text* do, with an inventory read before."""
    with simulated(text), Nvml() as session:
        session.read()
        return read_usage(session)


def test_all_figures_of_a_busy_gpu() -> None:
    """Memory, utilisation and each process once; nothing is above 100 percent."""
    (usage,) = usages(BUSY)
    assert usage == GpuUsage(
        uuid=GpuUuid("GPU-a"),
        index=0,
        name="NVIDIA A10",
        memory_used_bytes=1027 * MIB,
        utilization_percent=100,
        memory_utilization_percent=7,
        processes=(
            GpuProcess(pid=41, memory_bytes=512 * MIB),
            GpuProcess(pid=42, memory_bytes=None),
            GpuProcess(pid=43, memory_bytes=3 * MIB),
        ),
        failures={},
    )


@pytest.mark.parametrize(
    ("function", "figure", "field"),
    [
        ("nvmlDeviceGetUtilizationRates", Figure.UTILIZATION, "utilization_percent"),
        ("nvmlDeviceGetMemoryInfo", Figure.MEMORY, "memory_used_bytes"),
        ("nvmlDeviceGetComputeRunningProcesses", Figure.PROCESSES, "processes"),
        ("nvmlDeviceGetIndex", Figure.INDEX, "index"),
    ],
)
def test_one_failure_hides_one_figure(function: str, figure: Figure, field: str) -> None:
    """An unknown error of one question is named, and all other figures of all GPUs are there."""
    with simulated(BUSY) as file, Nvml() as session:
        session.read()
        file.write_text(
            f"{BUSY}  errors: {{{function}: UNKNOWN}}\n- {{profile: a10, uuid: GPU-b}}\n",
            encoding="utf-8",
        )
        session.call("nvmlDeviceGetCount")
        (usage,) = read_usage(session)
    assert usage.failures == {figure: "UNKNOWN"}
    assert getattr(usage, field) is None
    others = {"utilization_percent", "memory_used_bytes", "processes", "index", "name"} - {field}
    assert all(getattr(usage, other) is not None for other in others)


def test_what_a_gpu_does_not_have_is_no_failure() -> None:
    """Unified memory and partitions: the figure is not there, and nobody is to blame."""
    (usage,) = usages("gpus: [{profile: gb10, utilization_percent: null}]")
    assert (usage.memory_used_bytes, usage.utilization_percent) == (None, None)
    assert usage.failures == {}


def test_a_lost_gpu_is_there_with_its_failures() -> None:
    """It answers nothing, and the other one everything."""
    text = "gpus:\n- {profile: a10, uuid: GPU-a}\n- {profile: a10, uuid: GPU-b}\n"
    lost = text.replace("GPU-a}", "GPU-a, errors: {all: GPU_IS_LOST}}")
    with simulated(text) as file, Nvml() as session:
        session.read()
        file.write_text(lost, encoding="utf-8")
        one, other = read_usage(session)
    assert set(one.failures) == set(Figure)
    assert other.failures == {}
    assert other.processes == ()


def test_older_drivers() -> None:
    """Without the newer memory call and without graphics the rest is read."""
    missing = "missing: [nvmlDeviceGetMemoryInfo_v2, nvmlDeviceGetGraphicsRunningProcesses_v3]\n"
    (usage,) = usages(missing + BUSY)
    assert usage.memory_used_bytes == 1027 * MIB
    assert usage.processes is not None
    assert [each.pid for each in usage.processes] == [41, 42]
    assert usage.failures == {}
