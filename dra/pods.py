"""Who on this node uses a claim, and whether limits can hold for them.

HAMi-core's usage region belongs to one PID namespace, and its limits are read by index: two
containers that share a region lose each other's usage, and two limited claims in one container
overwrite each other's limits in an order that kubelet changes at every start. So a claim with
limits serves one container at a time, and a container uses one such claim. Init containers run
one after the other before the rest, so several may use it, unless one of them keeps running.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from dra.allocation import Allocation
from dra.record import PreparedClaim
from gpu.refusal import Refusal, RefusedError
from kube.events import Regarding
from kube.objects import JsonObject
from kube.views import ContainerView, PodView

_FINISHED = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerUse:
    """One container that refers to claims; *claims* are names of ResourceClaim objects."""

    name: str
    claims: frozenset[str]
    keeps_running: bool
    """False for an init container that ends before the next one starts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodUse:
    """A pod of this node, as far as claims go."""

    uid: str
    namespace: str
    name: str
    containers: tuple[ContainerUse, ...]
    """In the order in which they start."""

    def reference(self) -> Regarding:
        """Return what an event about this pod names."""
        return Regarding(
            api_version="v1", kind="Pod", name=self.name, uid=self.uid, namespace=self.namespace
        )


def read_pod(raw: JsonObject) -> PodUse:
    """Return the claims that the containers of a pod use; none when it has finished."""
    pod = PodView.model_validate(raw)
    claims = pod.claim_names()
    containers: list[ContainerUse] = []
    if pod.status.phase not in _FINISHED:
        for container in pod.spec.init_containers:
            keeps_running = container.restart_policy == "Always"
            containers.extend(_use(container, claims, keeps_running=keeps_running))
        for container in pod.spec.containers:
            containers.extend(_use(container, claims, keeps_running=True))
    metadata = pod.metadata
    return PodUse(
        uid=metadata.uid,
        namespace=metadata.namespace,
        name=metadata.name,
        containers=tuple(containers),
    )


def _use(
    container: ContainerView, claims: Mapping[str, str], *, keeps_running: bool
) -> Iterator[ContainerUse]:
    wanted = container.resources.claims
    used = frozenset(claims[each.name] for each in wanted if each.name in claims)
    if used:
        yield ContainerUse(name=container.name, claims=used, keeps_running=keeps_running)


def many_users(pods: Iterable[PodUse], claim: PreparedClaim) -> Refusal | None:
    """Return what to say when more than one container at a time uses the limited *claim*."""
    users: list[str] = []
    at_a_time = 0
    for pod in pods:
        if pod.namespace == claim.namespace:
            using = [each for each in pod.containers if claim.name in each.claims]
            users += [f"{pod.name}/{container.name}" for container in using]
            at_a_time += _at_a_time(using)
    if not claim.limits or at_a_time < 2:  # two is more than one
        return None
    return Refusal(
        code="ShareUsedByManyContainers",
        field="resources.claims",
        value=f"{claim.name} uid {claim.uid}",
        limit=f"its limit holds for one container, used by {', '.join(sorted(users))}",
        remedy="give every container a claim of its own",
    )


def _at_a_time(containers: Iterable[ContainerUse]) -> int:
    """Return how many of a pod's *containers*, in their order of start, run together at most."""
    running = most = 0
    for container in containers:
        most = max(most, running + 1)
        running += container.keeps_running
    return most


def many_claims(pod: PodUse, limited: frozenset[str]) -> Refusal | None:
    """Return what to say when a container of *pod* uses two of the *limited* claims."""
    for container in pod.containers:
        shares = sorted(container.claims & limited)
        if len(shares) > 1:
            return Refusal(
                code="ManySharesInContainer",
                field=f"containers[{container.name}].resources.claims",
                value=", ".join(shares),
                limit="limits of several claims overwrite each other in one container",
                remedy="put the requests into one claim",
            )
    return None


class PodWatch:
    """Looks at pods and prepared claims together, and says on the pod what cannot work."""

    def __init__(
        self,
        *,
        pods: Callable[[], Iterable[PodUse]],
        claims: Callable[[], Mapping[str, PreparedClaim]],
        say: Callable[[Regarding, Refusal], None],
    ) -> None:
        self._pods = pods
        self._claims = claims
        self._say = say

    def refuse(self, allocation: Allocation) -> None:
        """Raise `RefusedError` when a pod of *allocation* would mix it with another share.

        Pods that the watch has not shown yet pass; `look` tells about them afterwards.
        """
        limited = self._limited(allocation.namespace) | {allocation.name}
        for pod in self._pods():
            refusal = many_claims(pod, limited) if pod.uid in allocation.pod_uids else None
            if refusal is not None:
                raise RefusedError(refusal)

    def look(self, *, namespace: str | None = None) -> None:
        """Say on each pod (of *namespace*) what its claims cannot give it."""
        pods = [pod for pod in self._pods() if namespace in (None, pod.namespace)]
        claims = [each for each in self._claims().values() if each.limits]
        for claim in claims:
            refusal = many_users(pods, claim)
            if refusal is not None:
                for pod in pods:
                    if pod.namespace == claim.namespace and _uses(pod, claim.name):
                        self._say(pod.reference(), refusal)
        for pod in pods:
            refusal = many_claims(pod, self._limited(pod.namespace))
            if refusal is not None:
                self._say(pod.reference(), refusal)

    def _limited(self, namespace: str) -> frozenset[str]:
        claims = self._claims().values()
        return frozenset(
            each.name for each in claims if each.limits and each.namespace == namespace
        )


def _uses(pod: PodUse, claim: str) -> bool:
    return any(claim in container.claims for container in pod.containers)
