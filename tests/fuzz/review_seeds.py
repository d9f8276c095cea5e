"""Reviews as the API server sends them, to be spoiled."""

from typing import Any, Final

from tests.fuzz.shareconfigs import VALID
from tests.fuzz.world import NAMESPACE, WRITER

AMOUNTS: Final[tuple[Any, ...]] = (
    *("0", "1", "2", "3", "32", "33", "50", "99", "100", "101", "150", "512", "3000", "24564"),
    *("1k", "5k", "1M", "16G", "3Gi", "1536Ki", "1536Mi", "4Gi", "16Ti", "17Ti", "2e3", "1e-3"),
    *("500m", "1500m", "2000m", "1.0", "0.5", "-1", "+1", "1.5Gi", "0Gi", "50%", "1K", "NaN", ""),
    *("9223372036854775807", "9223372036854775808", "4294967296", "16777216", "16777217"),
    *(0, 1, 2, 50, 3000, -1, 0.5, 1.0, 1e300, True, None, [], {}),
)
"""What may stand under a resource, right or wrong."""


def _resources(**limits: Any) -> dict[str, Any]:
    names = {"gpu": "nvidia.com/gpu", "memory": "nvidia.com/gpumem", "cores": "nvidia.com/gpucores"}
    names |= {"percent": "nvidia.com/gpumem-percentage", "priority": "nvidia.com/priority"}
    found = {names.get(key, key): value for key, value in limits.items()}
    return {"limits": {"cpu": "1", **found}, "requests": {"cpu": "1", **found}}


def _pod(*containers: Any, annotations: Any = None, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "app", "namespace": NAMESPACE, "annotations": annotations or {}},
        "spec": {"containers": list(containers), "schedulerName": "default-scheduler", **spec},
    }


def _container(name: str, **limits: Any) -> dict[str, Any]:
    return {"name": name, "image": "cuda", "resources": _resources(**limits), "env": []}


def _review(item: Any, old: Any = None, **changes: Any) -> dict[str, Any]:
    request = {
        "uid": "review-1",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "namespace": NAMESPACE,
        "name": "app",
        "operation": "CREATE" if old is None else "UPDATE",
        "userInfo": {"username": "ann", "uid": "u1", "groups": ["dev"], "extra": {"a": ["b"]}},
        "object": item,
        "oldObject": old,
        "dryRun": False,
    }
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": request | changes,
    }


def _claim(capacity: Any, config: Any, **body: Any) -> dict[str, Any]:
    exactly = {"deviceClassName": "share.gpuslice.io", "capacity": {"requests": capacity}} | body
    return {
        "metadata": {"name": "c", "namespace": NAMESPACE},
        "spec": {
            "devices": {
                "requests": [{"name": "gpu", "exactly": exactly}],
                "config": [{"opaque": {"driver": "gpuslice.io", "parameters": config}}],
            }
        },
    }


_UUID: Final = "GPU-00000000-0000-4000-8000-000000000001"
_CHOOSING: Final = {
    "nvidia.com/use-gputype": "A10,a100",
    "nvidia.com/nouse-gpuuuid": _UUID,
    "hami.io/gpu-scheduler-policy": "mutex,topology-aware",
    "hami.io/numa-alignment": "best-effort",
    "hami.io/device-scoring-weights": "slot=1,core=1,memory=3",
}
_OWNED: Final = {
    "hami.io/vgpu-node": "n1",
    "hami.io/vgpu-devices-allocated": f"{_UUID},NVIDIA,1,0:;",
}
_DRA: Final = {"group": "resource.k8s.io", "version": "v1"}
_CLAIM: Final = _claim({"memory": "3000Mi", "cores": "30"}, VALID[3])
_TEMPLATE: Final = {"metadata": {"name": "t"}, "spec": {"spec": _CLAIM["spec"]}}
_ASKED: Final = _container("main", gpu="1", memory="3k", cores="30", priority="0")
_PLAIN: Final = _pod(_ASKED | {"env": [{"name": "CUDA_TASK_PRIORITY", "value": "0"}]})
_ENV: Final = [{"name": "CUDA_DISABLE_CONTROL", "value": "true"}, {"name": "A", "value": "b"}]

PODS: Final[tuple[dict[str, Any], ...]] = (
    _PLAIN,
    _pod(_container("a", gpu="2", percent="50"), _container("b"), annotations=_CHOOSING),
    _pod(
        _container("main", gpu="1", memory="3Gi"),
        initContainers=[
            _container("init", gpu="1", memory="3Gi"),
            _container("sidecar", cores="30") | {"restartPolicy": "Always"},
        ],
    ),
    _pod(_container("whole", gpu="1"), _container("also", percent="100", cores="20")),
    _pod(
        _container("mig", gpu="1", memory="5k"),
        annotations={"nvidia.com/vgpu-mode": "hami-core,mig"},
    ),
    _pod(
        _container("mlu", **{"cambricon.com/vmlu": "1"}) | {"env": _ENV},
        _container("dcu", **{"hygon.com/dcunum": "1", "hygon.com/dcumem": "2k"}),
    ),
    _pod(
        {"name": "own", "image": "cuda", "resources": {"claims": [{"name": "mine"}]}, "env": _ENV},
        _container("main", gpu="1", memory="2k"),
        resourceClaims=[{"name": "mine", "resourceClaimName": "taken"}],
    ),
)
SEEDS: Final[tuple[dict[str, Any], ...]] = (
    *map(_review, PODS),
    _review(_PLAIN | {"metadata": {"name": "app", "annotations": _OWNED}}),
    _review(_PLAIN | {"metadata": {"annotations": _OWNED}}, _PLAIN),
    _review(_PLAIN, _PLAIN | {"metadata": {"annotations": _OWNED}}, subResource="status"),
    _review(
        {"metadata": {"name": "app", "annotations": _OWNED}, "target": {"name": "n1"}},
        subResource="binding",
        userInfo={"username": WRITER},
    ),
    _review(_CLAIM, resource=_DRA | {"resource": "resourceclaims"}),
    _review(
        _claim({"memory": "40Gi"}, VALID[1], count=2),
        resource=_DRA | {"resource": "resourceclaims"},
    ),
    _review(_TEMPLATE, resource=_DRA | {"resource": "resourceclaimtemplates"}),
)
