"""What is written into a new pod, whatever else is said about it.

A limit for NVIDIA's GPUs becomes a claim where the cluster can serve claims for shares; requests of
other vendors, and on older clusters all of them, are prepared for HAMi's scheduler.
"""

from collections.abc import Callable, Collection
from typing import Final

from gpu.refusal import Refusal
from hami.containers import all_containers
from hami.preferences import Preferences
from hami.requests import NVIDIA, Absent, ContainerRequest, Invalid, Valid
from kube.objects import JsonObject
from webhook import podrules
from webhook.claims import Translation, hide_devices, translate
from webhook.facts import ClusterFacts
from webhook.legacy import patch_for, write_edits, write_scheduler
from webhook.patching import Patch
from webhook.podsettings import PodRules

_BY_THE_DRIVER: Final = frozenset(
    {"CUDA_TASK_PRIORITY", "GPU_CORE_UTILIZATION_POLICY", "NVIDIA_VISIBLE_DEVICES"}
)
"""Variables of NVIDIA's containers that are not written where claims say the same."""


class PodWriter:
    """Makes the patches of pods."""

    def __init__(self, rules: PodRules, facts: Callable[[], ClusterFacts]) -> None:
        """Prepare; *facts* tells what GPUs there are."""
        self._rules = rules
        self._facts = facts

    def with_claims(
        self, pod: JsonObject, read: Valid
    ) -> tuple[Translation | Invalid, tuple[Refusal, ...]]:
        """Return the claims for *read*, and a warning about devices of others.

        These are prepared for HAMi's scheduler in the same patch.
        """
        others = [each for each in read.requests if any(d.word != NVIDIA for d in each.devices)]
        chosen = self.scheduler_decision(pod)
        warnings = (chosen.warning,) if others and chosen.warning else ()
        return self._translated(pod, read, others if chosen.take else ()), warnings

    def for_scheduler(self, pod: JsonObject, read: Absent | Valid) -> tuple[JsonObject, ...]:
        """Return the patch that prepares *pod* for HAMi's scheduler."""
        return patch_for(pod, read, scheduler_name=self._rules.scheduler_name)

    def without_devices(
        self, pod: JsonObject, read: Absent, *, claims_serve: bool
    ) -> tuple[JsonObject, ...]:
        """Return the patch of a pod that asks for no device in HAMi's words."""
        if not claims_serve:
            return self.for_scheduler(pod, read)
        if not self._keeps_it_pending(pod):
            patch = Patch(pod)
            self._write_others(patch, pod, read.requests)
            hide_devices(patch, read.requests)
            return patch.operations
        made = self._translated(pod, Valid(requests=read.requests, preferences=Preferences()))
        return made.patch if isinstance(made, Translation) else ()

    def scheduler_decision(self, pod: JsonObject) -> podrules.SchedulerDecision:
        """Return whether HAMi's scheduler may place *pod*."""
        return podrules.scheduler_decision(
            pod,
            scheduler_name=self._rules.scheduler_name,
            force_overwrite=self._rules.force_overwrite,
        )

    def _keeps_it_pending(self, pod: JsonObject) -> bool:
        """Tell whether *pod* names amounts of resources that no node of this cluster has."""
        for container in all_containers(pod):
            resources_of = container.raw.get("resources")
            amounts = resources_of.get("limits") if isinstance(resources_of, dict) else None
            if not isinstance(amounts, dict):
                continue
            named = self._rules.translation.keys & amounts.keys()
            if any(str(amounts[key]) != "0" for key in named):
                return True
        return False

    def _translated(
        self, pod: JsonObject, read: Valid, others: Collection[ContainerRequest] = ()
    ) -> Translation | Invalid:
        """Return the claims for *read*; *others* are prepared for HAMi's scheduler beside them."""

        def write_others(patch: Patch) -> None:
            if others:
                self._write_others(patch, pod, others)
                write_scheduler(patch, pod, self._rules.scheduler_name)

        facts, settings = self._facts(), self._rules.translation
        return translate(pod, read, facts, settings, beside=write_others)

    def _write_others(
        self, patch: Patch, pod: JsonObject, requests: Collection[ContainerRequest]
    ) -> None:
        """Write what vendors add to containers, but for NVIDIA: the driver does that."""
        leave = self._rules.translation.keys | _BY_THE_DRIVER
        write_edits(patch, pod, requests, leave=leave)
