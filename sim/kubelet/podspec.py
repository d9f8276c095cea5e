"""From a container in a pod's spec to a request for the runtime: environment and volumes.

Only what DRA pods need is there: literal values and the usual downward fields, `hostPath` and
`emptyDir` volumes. A reference to anything else is left out of the environment.
"""

from collections.abc import Iterator
from pathlib import Path

from kube.objects import JsonObject
from sim.kubelet.deviceoptions import DeviceOptions
from sim.runtime.container import MountView, PodRef
from sim.runtime.inject import on_host
from sim.runtime.runtime import ContainerRequest

EXIT_AFTER = "sim.gpuslice.io/exit-after-s"
"""Pod annotation: seconds after which the app containers end with 0; else they run on."""


def pod_ref(pod: JsonObject) -> PodRef:
    """Return the pod as containers know it."""
    meta = pod["metadata"]
    return PodRef(namespace=meta["namespace"], name=meta["name"], uid=meta["uid"])


def exit_after_s(pod: JsonObject) -> float | None:
    """Return when the pod's containers end by themselves; `None` for never.

    A pod whose policy is `Always` would only be started again, so it runs on.
    """
    text = pod["metadata"].get("annotations", {}).get(EXIT_AFTER)
    if text is None or pod["spec"].get("restartPolicy", "Always") == "Always":
        return None
    try:
        return max(0.0, float(text))
    except ValueError:
        return None


def is_sidecar(container: JsonObject) -> bool:
    """Tell whether an init container runs on beside the app containers."""
    return bool(container.get("restartPolicy") == "Always")


def request(
    pod: JsonObject,
    container: JsonObject,
    *,
    root: Path,
    cdi_devices: tuple[str, ...],
    plugins: DeviceOptions,
    restart_count: int,
) -> ContainerRequest:
    """Return what the runtime is asked for; *root* is where the node's files lie.

    What the pod says itself comes after what device *plugins* say, and wins.
    """
    return ContainerRequest(
        pod=pod_ref(pod),
        container=container["name"],
        image=container.get("image", ""),
        command=(*container.get("command", []), *container.get("args", [])),
        env={**plugins.env, **dict(_env(pod, container))},
        mounts=(*plugins.mounts, *_mounts(pod, container, root)),
        cdi_devices=(*cdi_devices, *plugins.cdi_devices),
        devices=plugins.devices,
        annotations=plugins.annotations,
        restart_count=restart_count,
    )


def _env(pod: JsonObject, container: JsonObject) -> Iterator[tuple[str, str]]:
    meta, spec = pod["metadata"], pod["spec"]
    fields = {
        "metadata.name": meta["name"],
        "metadata.namespace": meta["namespace"],
        "metadata.uid": meta["uid"],
        "spec.nodeName": spec.get("nodeName", ""),
        "status.podIP": pod.get("status", {}).get("podIP", ""),
    }
    for entry in container.get("env", []):
        path = entry.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath")
        if "valueFrom" not in entry:
            yield entry["name"], entry.get("value", "")
        elif path in fields:
            yield entry["name"], fields[path]


def _mounts(pod: JsonObject, container: JsonObject, root: Path) -> Iterator[MountView]:
    volumes = {volume["name"]: volume for volume in pod["spec"].get("volumes", [])}
    for mount in container.get("volumeMounts", []):
        volume = volumes.get(mount["name"], {})
        options = ("rbind", "ro") if mount.get("readOnly") else ("rbind", "rw")
        target = mount["mountPath"]
        if "hostPath" in volume:
            path = volume["hostPath"]["path"]
            source = str(on_host(root, path))
            yield MountView(
                container_path=target, type="bind", options=options, host_path=path, source=source
            )
        else:
            yield MountView(container_path=target, type="tmpfs", options=options)
