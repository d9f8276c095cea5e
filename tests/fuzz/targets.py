"""All targets, and how a number of inputs is divided among them."""

from collections.abc import Callable, Mapping
from typing import Final

from tests.fuzz.cdi_files import CdiFiles, GeneratedFiles
from tests.fuzz.checkpoints import Checkpoints, Records
from tests.fuzz.claims import Claims
from tests.fuzz.converted import ConvertedManifests
from tests.fuzz.deviceconfigs import DeviceConfigs
from tests.fuzz.gpu_quotas import GpuQuotas
from tests.fuzz.nodestamps import Handshakes, NodeLocks, Scores
from tests.fuzz.nvml_answers import NvmlAnswers
from tests.fuzz.offered_gpus import OfferedGpus
from tests.fuzz.operator_files import OperatorFiles
from tests.fuzz.podlists import MigLists, PodLists
from tests.fuzz.pods import Pods
from tests.fuzz.prepare_calls import PrepareCalls
from tests.fuzz.quantities import Quantities
from tests.fuzz.recovered_specs import RecoveredSpecs
from tests.fuzz.registers import Registers
from tests.fuzz.requestannotations import RequestAnnotations
from tests.fuzz.reviews import Reviews
from tests.fuzz.running import Target
from tests.fuzz.shareconfigs import ShareConfigs
from tests.fuzz.slices import Losses, Slices
from tests.fuzz.watch_lines import WatchLines

MAKERS: Final[tuple[Callable[[], Target], ...]] = (
    *(Quantities, ShareConfigs, Claims, PrepareCalls, Checkpoints, Records, CdiFiles),
    *(GeneratedFiles, RecoveredSpecs, NvmlAnswers, Slices, Losses, Pods, OperatorFiles, WatchLines),
    *(Reviews, DeviceConfigs, RequestAnnotations, GpuQuotas, OfferedGpus, ConvertedManifests),
    *(Registers, PodLists, MigLists, Handshakes, NodeLocks, Scores),
)


def shares(total: int) -> Mapping[Callable[[], Target], int]:
    """Divide *total* inputs by the targets' weights, rounding up."""
    weights = {maker: maker().weight for maker in MAKERS}
    whole = sum(weights.values())
    return {maker: -(-total * weight // whole) for maker, weight in weights.items()}
