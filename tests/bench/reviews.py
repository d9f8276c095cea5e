"""Questions as an API server asks them about legacy pods: about 3.8 KB, of pods alike or not.

A pod from a ReplicaSet has no name yet; what a controller, the service account's admission and
the tolerations' admission put into it is there, as is what kubectl's users write.
"""

import json
from typing import Any, Final

NAMESPACE: Final = "bench"
Json = dict[str, Any]

_MOUNT: Final = "kube-api-access-x7k2p"


def review(number: int, *, replica_of: int | None = None) -> bytes:
    """Return the body of one question; *number* decides the UID, the amounts and the labels.

    A replica has a UID of its own, and the rest is as for the pod that it is one of.
    """
    kind = {"group": "", "version": "v1", "kind": "Pod"}
    resource = {"group": "", "version": "v1", "resource": "pods"}
    request = {
        "uid": _uid(number),
        "kind": kind,
        "resource": resource,
        "requestKind": kind,
        "requestResource": resource,
        "namespace": NAMESPACE,
        "operation": "CREATE",
        "userInfo": {
            "username": "system:serviceaccount:kube-system:replicaset-controller",
            "uid": "3f6b0c2e-5c44-4c0e-8d6b-0b6f2c1d9a11",
            "groups": ["system:serviceaccounts", "system:authenticated"],
        },
        "object": pod(number if replica_of is None else replica_of),
        "oldObject": None,
        "dryRun": False,
        "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
    }
    said = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}
    return json.dumps(said, separators=(",", ":")).encode()


def pod(number: int) -> Json:
    """Return a pod with a share for its main container and none for the one beside it."""
    limits = {
        "cpu": "4",
        "memory": "16Gi",
        "nvidia.com/gpu": "1",
        "nvidia.com/gpumem": str(3000 + number % 997),
        "nvidia.com/gpucores": str(10 + number % 61),
    }
    owner = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": f"trainer-{number:08x}",
        "uid": _uid(number + 1),
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "generateName": f"trainer-{number:08x}-",
            "namespace": NAMESPACE,
            "creationTimestamp": None,
            "labels": {
                "app.kubernetes.io/name": "trainer",
                "pod-template-hash": f"{number:08x}",
                "team": "vision",
            },
            "annotations": {"nvidia.com/use-gputype": "A100", "prometheus.io/scrape": "true"},
            "ownerReferences": [owner],
            "managedFields": [_managed()],
        },
        "spec": {
            "volumes": [_token(), {"name": "data", "persistentVolumeClaim": {"claimName": "set"}}],
            "containers": [
                _container("trainer", {"limits": limits, "requests": limits}, number),
                _container("sidecar", {"requests": {"cpu": "100m", "memory": "64Mi"}}, number),
            ],
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst",
            "serviceAccountName": "default",
            "serviceAccount": "default",
            "securityContext": {},
            "schedulerName": "default-scheduler",
            "tolerations": [
                _toleration("not-ready"),
                _toleration("unreachable"),
                {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
            ],
            "priority": 0,
            "enableServiceLinks": True,
            "preemptionPolicy": "PreemptLowerPriority",
        },
        "status": {},
    }


def _uid(number: int) -> str:
    return f"{number:08x}-1b2c-4d3e-8f4a-5b6c7d8e9f00"


def _container(name: str, resources: Json, number: int) -> Json:
    return {
        "name": name,
        "image": f"example.com/vision/{name}:2026.{number % 12}",
        "args": ["--epochs", "90", "--data", "/data"],
        "env": [
            {"name": "RUN", "value": f"run-{number}"},
            {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        ],
        "resources": resources,
        "volumeMounts": [
            {"name": "data", "mountPath": "/data"},
            {
                "name": _MOUNT,
                "readOnly": True,
                "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
            },
        ],
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
    }


def _token() -> Json:
    ca = {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}
    field = {"apiVersion": "v1", "fieldPath": "metadata.namespace"}
    sources = [
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {"configMap": ca},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": field}]}},
    ]
    return {"name": _MOUNT, "projected": {"sources": sources, "defaultMode": 420}}


def _toleration(condition: str) -> Json:
    return {
        "key": f"node.kubernetes.io/{condition}",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": 300,
    }


def _managed() -> Json:
    labels: Json = {".": {}, "f:app.kubernetes.io/name": {}, "f:team": {}}
    return {
        "manager": "kube-controller-manager",
        "operation": "Update",
        "apiVersion": "v1",
        "time": "2026-05-01T12:00:00Z",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:metadata": {"f:generateName": {}, "f:labels": labels}},
    }
