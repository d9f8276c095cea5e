"""Checks of the container runtime: does it apply CDI specs, does it give GPUs away by itself?"""

from typing import Any, Final

from cli.doctor.model import Check, Verdict, failed, ok, unknown, warning
from cli.doctor.node.runtime import CRI_O, NoRuntimeError, Runtime, look
from cli.doctor.node.view import Node, UnreadableFileError
from cli.doctor.release import lacks_cdi, lets_pods_override

_TOOLKIT_CONFIGS: Final = (
    "/etc/nvidia-container-runtime/config.toml",
    "/usr/local/nvidia/toolkit/.config/nvidia-container-runtime/config.toml",
    "/var/lib/rancher/k3s/agent/etc/nvidia-container-runtime/config.toml",
)
_ENVVAR: Final = "accept-nvidia-visible-devices-envvar-when-unprivileged"
_NOWHERE: Final = "run this on the node, or in the agent's container with --host-root"


def runtime(node: Node) -> Verdict:
    """Say which runtime there is, and whether its release is fit."""
    try:
        found = look(node)
    except NoRuntimeError as error:
        return unknown(str(error), _NOWHERE)
    said = f"{found.name} {found.release or 'of an unknown release'} ({found.source})"
    if found.release is not None and lacks_cdi(found.name, found.release):
        return failed(f"{said} knows no CDI devices", "update containerd to 2.0 or newer")
    if found.release is not None and lets_pods_override(found.name, found.release):
        remedy = "update CRI-O to 1.34.0, 1.33.3, 1.32.7 or 1.31.11"
        return warning(f"{said}: a pod's own variables replace its limits", remedy)
    if found.problems:
        return warning(said, "mend or remove these files", *found.problems)
    return ok(said)


def cdi(node: Node) -> Verdict:
    """Say whether specs are applied, and from which directories."""
    try:
        found = look(node)
    except NoRuntimeError as error:
        return unknown(str(error), _NOWHERE)
    if found.cdi_enabled is None:
        said = f"{found.source} does not name enable_cdi, which containerd 1.7 has off"
        return warning(said, "set enable_cdi = true and restart containerd")
    if not found.cdi_enabled:
        said = f"CDI is switched off ({found.source}): pods with GPUs do not start"
        return failed(said, "set enable_cdi = true in the CRI plugin's section, restart containerd")
    if _same(node, node.cdi_directory) not in {_same(node, each) for each in found.spec_dirs}:
        said = f"{found.name} reads {', '.join(found.spec_dirs)}, not {node.cdi_directory}"
        return failed(said, "add it to cdi_spec_dirs, or name one of these with --cdi-directory")
    return ok(f"on, reads {', '.join(found.spec_dirs)}")


def _same(node: Node, path: str) -> str:
    """Return one name for the directory: /var/run is a link to /run nearly everywhere."""
    text = str(node.at(path))
    return text.replace(f"{node.host_root}/var/run/".replace("//", "/"), f"{node.host_root}/run/")


def nvidia_runtime(node: Node) -> Verdict:
    """Say whether pods get GPUs that nobody gave them, by a variable."""
    try:
        found = look(node)
    except NoRuntimeError as error:
        return unknown(str(error), _NOWHERE)
    if not _is_nvidia(found):
        name = found.default_runtime or ("crun or runc" if found.name == CRI_O else "runc")
        return ok(f"pods run with {name} unless they say otherwise")
    config, problem = _toolkit(node)
    if problem:
        said = f"the default runtime is NVIDIA's, and its configuration cannot be read: {problem}"
        return unknown(said)
    if config is None or config.get(_ENVVAR, True) is not False:
        return warning(
            "the default runtime is NVIDIA's and takes NVIDIA_VISIBLE_DEVICES from any pod: an"
            " image with NVIDIA_VISIBLE_DEVICES=all sees all GPUs, without limits",
            f"set {_ENVVAR} = false in its config.toml, or make runc the default",
        )
    return ok(
        "the default runtime is NVIDIA's, and takes GPUs by variables from privileged pods only"
    )


def _is_nvidia(found: Runtime) -> bool:
    return "nvidia" in f"{found.default_runtime} {found.default_path}".lower()


def _toolkit(node: Node) -> tuple[dict[str, Any] | None, str]:
    """Return the configuration of NVIDIA's runtime, `None` for its defaults, or why not."""
    for path in _TOOLKIT_CONFIGS:
        if not node.at(path).exists():
            continue
        try:
            return node.toml(path), ""
        except UnreadableFileError as error:
            return None, str(error)
    return None, ""


CHECKS: Final = (
    Check(id="runtime", run=runtime),
    Check(id="runtime-cdi", run=cdi),
    Check(id="nvidia-runtime", run=nvidia_runtime),
)
