"""Turns what a container was granted into what kubelet is to do to it.

The limits are those of claims, by the same library and in the same files: one region for each
container on storage of its own, of which the container sees the file alone. Kubelet sets a pod's
own variables after these, so whoever may write them could undo the limits; admission keeps them
off. `CUDA_OVERSUBSCRIBE`, which HAMi sets beside, has no effect on the library.
"""

from collections.abc import Callable
from typing import Final

import structlog

from cdi.cardspec import CardEdits, CardSpecStore
from cdi.edits import ContainerEdits
from cdi.enforcement import DeviceLimit, Enforcement, enforcement_edits
from cdi.errors import StoreError
from cdi.library import HookLibrary
from gpu.refusal import Refusal, RefusedError
from hami.plugin.containers import ContainerRecord, ContainerStore
from hami.plugin.forms import ResponseForm, say_devices
from hami.plugin.limiting import LimitRules, by_gpu, limits_of
from hami.plugin.model import Grant, Offer
from protos import deviceplugin_v1beta1_pb2 as api

log = structlog.get_logger(__name__)

LOCK_PATH: Final = "/tmp/vgpulock"  # noqa: S108 - where the library looks


class Responder:
    """Answers for one node; may be called by several threads."""

    def __init__(  # noqa: PLR0913 - where the parts of an answer meet
        self,
        *,
        form: ResponseForm,
        rules: Callable[[], LimitRules],
        offers: Callable[[], Offer | None],
        edits: Callable[[], CardEdits | None],
        specs: CardSpecStore,
        containers: ContainerStore,
        library: Callable[[], HookLibrary],
        with_lock: bool = False,
    ) -> None:
        """Prepare; *library* raises `RefusedError` where there is none that fits.

        *edits* returns `None` as long as the driver's files are not known. *with_lock* gives every
        limited container a directory for locks, whatever is known of the library.
        """
        self._form, self._rules = form, rules
        self._offers, self._edits, self._specs = offers, edits, specs
        self._containers, self._library, self._with_lock = containers, library, with_lock

    def refresh(self) -> None:
        """Have the CDI spec say what the node has now; errors are logged.

        Where no form uses it, it is made no more, but kept for containers that were told of it.
        """
        edits = self._edits()
        if edits is None or not (self._form.uses_cdi or self._specs.path.exists()):
            return
        try:
            if self._specs.ensure(edits):
                log.info("cdi spec of the node written", path=str(self._specs.path))
        except (StoreError, RefusedError) as error:
            log.error("cdi spec of the node not written", reason=str(error))

    def respond(self, grant: Grant) -> api.ContainerAllocateResponse:
        """Return the answer; raises `RefusedError`."""
        offer = self._offers()
        cards = {card.uuid: card for card in offer.cards} if offer else {}
        answer = api.ContainerAllocateResponse()
        edits = self._needed_edits()
        try:
            if edits is not None and self._form.uses_cdi:
                self._specs.ensure(edits)
            say_devices(answer, self._form, by_gpu(grant), cards=cards, edits=edits)
            rules = self._rules()
            limits = limits_of(grant, cards, rules)
            if limits is not None:
                self._limit(answer, grant, limits, rules)
        except StoreError as error:
            refusal = Refusal(
                code=error.code, field="node", value=str(error.path), limit=error.detail
            )
            raise RefusedError(refusal) from error
        if grant.disables_control and limits is not None:
            log.warning(
                "limits kept although the container asks for none",
                pod_uid=grant.pod_uid,
                container=grant.container,
                remedy="list its namespace in unlimited-namespaces, or grant it whole GPUs",
            )
        return answer

    def _needed_edits(self) -> CardEdits | None:
        if not self._form.needs_edits:
            return None
        edits = self._edits()
        if edits is None:
            raise RefusedError(
                Refusal(
                    code="NodeNotReady",
                    field="node",
                    value="driver files",
                    limit="they have not been read yet",
                    remedy="kubelet asks again for the next pod",
                )
            )
        return edits

    def _limit(
        self,
        answer: api.ContainerAllocateResponse,
        grant: Grant,
        limits: tuple[DeviceLimit, ...],
        rules: LimitRules,
    ) -> None:
        library = self._library()
        known = library.compatibility
        record = ContainerRecord(
            pod_uid=grant.pod_uid,
            namespace=grant.namespace,
            pod=grant.pod,
            container=grant.container,
            library_sha256=library.sha256,
            region_size=known.region_size,
            with_lock=self._with_lock or known.needs_lock_directory,
        )
        enforcement = Enforcement(
            library=library,
            region_host_path=self._containers.region_host_path(record),
            limits=limits,
            priority=grant.priority,
            core_policy=rules.core_policy,
            log_level=rules.log_level,
        )
        _add(answer, enforcement_edits(enforcement))
        if record.with_lock:
            host_path = self._containers.lock_host_path(record)
            answer.mounts.append(api.Mount(host_path=host_path, container_path=LOCK_PATH))
        self._containers.keep(record)


def _add(answer: api.ContainerAllocateResponse, edits: ContainerEdits) -> None:
    for text in edits.env:
        name, _, value = text.partition("=")
        answer.envs[name] = value
    answer.mounts.extend(
        api.Mount(
            host_path=mount.host_path,
            container_path=mount.container_path,
            read_only="ro" in mount.options,
        )
        for mount in edits.mounts
    )
