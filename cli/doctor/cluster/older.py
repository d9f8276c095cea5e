"""The check of the extender, which decides where shares cannot be claimed."""

from typing import Final

from cli.doctor.cluster import api
from cli.doctor.cluster.view import SCHEDULER, Cluster, flags, is_ready, moment, name_of
from cli.doctor.model import Check, Status, Verdict, counted, failed, listed, ok, skipped, warning
from kube import paths
from kube.errors import KubeError, NotServedError
from kube.objects import JsonObject

_NAMESPACE: Final = "kube-system"
_NAME: Final = "hami-scheduler"
_ALONE_FLAG: Final = "--no-leader-elect"
_NAMESPACE_FLAG: Final = "--leader-elect-resource-namespace="
_NAME_FLAG: Final = "--leader-elect-resource-name="
_LATE: Final = 3


def extender(cluster: Cluster) -> Verdict:
    """Look for ready pods, and for a leader that renews its Lease."""
    pods = cluster.own_pods(SCHEDULER)
    if not pods:
        if _is_needed(cluster):
            said = "no extender runs, and shares cannot be claimed here"
            return warning(said, "switch on the scheduler in the chart's values")
        return skipped("shares are claimed here: no extender is needed")
    waiting = [name_of(pod) for pod in pods if not is_ready(pod)]
    if len(waiting) == len(pods):
        return failed(f"no extender is ready: {listed(waiting)}", "see the logs of these pods")
    leading = _leading(cluster, pods)
    if leading.status is Status.OK and waiting:
        return warning(f"not ready: {listed(waiting)}", "see the logs of these pods")
    return leading


def _leading(cluster: Cluster, pods: list[JsonObject]) -> Verdict:
    if any(word == "" for pod in pods for word in flags(pod, _ALONE_FLAG)):
        return ok(f"{counted(len(pods), 'pod')} ready; decides without a Lease")
    namespace, name = _lease_name(pods)
    lease = cluster.item(paths.leases(namespace, name))
    spec = (lease or {}).get("spec") or {}
    holder, renewed = str(spec.get("holderIdentity") or ""), moment(spec.get("renewTime"))
    if not holder or renewed is None:
        said = f"nobody holds the Lease {namespace}/{name}: no pod is decided about"
        return failed(said, "see the logs of the kube-scheduler beside the extender")
    late_s = (cluster.now - renewed).total_seconds()
    if late_s > _LATE * float(spec.get("leaseDurationSeconds") or 15):
        said = f"{holder} has not renewed the Lease {namespace}/{name} for {int(late_s)} s"
        return failed(said, "see the logs of the kube-scheduler beside the extender")
    return ok(f"{counted(len(pods), 'pod')} ready; {holder} leads")


def _is_needed(cluster: Cluster) -> bool:
    try:
        return api.keeps_shares(cluster).status is not Status.OK
    except NotServedError:
        return True
    except KubeError:
        return False


def _lease_name(pods: list[JsonObject]) -> tuple[str, str]:
    """Return namespace and name of the Lease, as the pods' flags say."""
    namespaces = [word for pod in pods for word in flags(pod, _NAMESPACE_FLAG)]
    names = [word for pod in pods for word in flags(pod, _NAME_FLAG)]
    return next(iter(namespaces), _NAMESPACE), next(iter(names), _NAME)


CHECKS: Final = (Check(id="extender", run=extender),)
