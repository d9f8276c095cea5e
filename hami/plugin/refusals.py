"""Why devices that were decided are not handed out."""

from gpu.refusal import Refusal
from hami.plugin.claimants import Claimant
from hami.plugin.replays import Replay


def mismatch(claimant: Claimant, place: int, why: str) -> Refusal:
    """Return why the container at *place* does not get what was decided."""
    return Refusal(
        code="DevicesNotMatched",
        field=f"pod {claimant.identity.key}",
        value=claimant.containers[place].name,
        limit=f"kubelet's ids are not of the GPUs that were decided: {why}",
        remedy="set the extender's /refit, or a topology manager policy that lets all GPUs be used",
    )


def no_instances(claimant: Claimant, uuid: str) -> Refusal:
    """Return why the card of *uuid* is not handed out."""
    return Refusal(
        code="PartitionsNotMade",
        field=f"pod {claimant.identity.key}",
        value=uuid,
        limit="the GPU is to be divided on demand, which this node does not do",
    )


def twofold(replay: Replay) -> Refusal:
    """Return why what *replay* was answered is not answered again."""
    return Refusal(
        code="PodAmbiguous",
        field="Allocate",
        value=str(replay.identity.key),
        limit="kubelet may have lost what it was answered, or ask for another container",
        remedy="the pod that fails has to be created again; its controller does that",
    )
