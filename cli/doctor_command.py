"""`gpuslice doctor`: what of a cluster and of this node fits together, and what to do where not.

Each half runs where it can; what cannot be asked is unknown. Nothing is written to the cluster but
the claim and the pod of `--preflight`, which are deleted again. The exit status is 0 where nothing
failed, 1 for warnings with `--strict`, 2 where something failed, 3 where nothing could be asked.
"""

import argparse
import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cli.doctor.cluster.view import Cluster
    from cli.doctor.model import Finding
    from cli.doctor.node.view import Node
    from cli.doctor.preflight.preflights import Wish

_INTERRUPTED = 130
_USAGE = 2


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `doctor` to the commands of `gpuslice`."""
    parser = subparsers.add_parser("doctor", help="check a cluster and this node, say what to do")
    parser.add_argument("--only", choices=("cluster", "node"), help="check one half alone")
    parser.add_argument(
        "--output", "-o", choices=("table", "json"), default="table", help="for a person, a program"
    )
    parser.add_argument("--strict", action="store_true", help="let warnings count: exit status 1")
    parser.add_argument(
        "--timeout-s",
        type=_seconds,
        default=10.0,
        metavar="S",
        help="how long one request may take (default: 10)",
    )
    _add_cluster(parser.add_argument_group("cluster"))
    _add_preflight(parser.add_argument_group("preflight"))
    _add_node(parser.add_argument_group("node"))
    parser.set_defaults(run=run)


def _add_cluster(group: "argparse._ArgumentGroup") -> None:
    group.add_argument(
        "--kubeconfig",
        type=Path,
        metavar="FILE",
        help="credentials (default: $KUBECONFIG, the pod's own, ~/.kube/config)",
    )
    group.add_argument(
        "-n", "--namespace", help="where gpuslice runs (default: look in all namespaces)"
    )
    group.add_argument(
        "--trial-namespace",
        default="default",
        metavar="NAME",
        help="where dry runs and preflights are made (default: default)",
    )


def _add_preflight(group: "argparse._ArgumentGroup") -> None:
    group.add_argument(
        "--preflight",
        action="store_true",
        help="run a pod with a GPU on each node and see that its limit arrives; deletes it again",
    )
    group.add_argument(
        "--preflight-image",
        metavar="IMAGE",
        help="an image with `sh`, `env` and `grep` (default: the node agent's own)",
    )
    group.add_argument(
        "--node", action="append", default=[], metavar="NAME", help="on this node only; repeatable"
    )
    group.add_argument(
        "--preflight-timeout-s",
        type=_seconds,
        default=120.0,
        metavar="S",
        help="how long one pod may take (default: 120)",
    )


def _add_node(group: "argparse._ArgumentGroup") -> None:
    # Without them: as the environment says, or the agent in whose container this is.
    group.add_argument(
        "--host-root",
        type=Path,
        default=Path("/"),
        metavar="DIR",
        help="where the host's files are seen here (default: /)",
    )
    group.add_argument(
        "--kubelet-root",
        metavar="DIR",
        help="kubelet's --root-dir (default: /var/lib/kubelet)",
    )
    group.add_argument(
        "--cdi-directory",
        metavar="DIR",
        help="where the agent writes CDI specs (default: /var/run/cdi)",
    )
    group.add_argument(
        "--driver-root",
        metavar="auto|DIR",
        help="where the NVIDIA driver is on the host (default: search the known places)",
    )
    group.add_argument(
        "--hami-core-library",
        metavar="FILE",
        help="HAMi-core's libvgpu.so on the host",
    )


def run(args: argparse.Namespace) -> int:
    """Print what is found; see the module's docstring for the status."""
    if args.preflight and args.only == "node":
        return _fail("a preflight needs the cluster: leave out --only node")
    if args.node and not args.preflight:
        return _fail("--node says where preflights run: add --preflight")
    from cli.doctor.model import exit_status  # noqa: PLC0415 - other commands need none of it
    from cli.doctor.veiling import veiled  # noqa: PLC0415
    from kube import logs  # noqa: PLC0415

    logs.configure("error", json=False, for_good=False)
    try:
        findings = [veiled(finding) for finding in _findings(args)]
    except KeyboardInterrupt as error:
        sys.stderr.write("\n".join(["interrupted", *getattr(error, "__notes__", ()), ""]))
        return _INTERRUPTED
    status = exit_status(findings, strict=args.strict)
    _print(findings, status, as_json=args.output == "json")
    return status


def _findings(args: argparse.Namespace) -> Iterator["Finding"]:
    from cli.doctor.halves import (  # noqa: PLC0415
        cluster_half,
        node_half,
        preflight_half,
        reach,
    )

    cluster, unreached = (None, None)
    if args.only != "node" or args.kubeconfig:
        cluster, unreached = reach(
            args.kubeconfig,
            namespace=args.namespace,
            trial_namespace=args.trial_namespace,
            timeout_s=args.timeout_s,
        )
    if args.only != "node":
        yield from cluster_half(cluster, unreached)
    if args.only != "cluster":
        yield from node_half(_node(args, cluster), wanted=args.only == "node")
    if args.preflight:
        yield from preflight_half(cluster, unreached, _wish(args))
    if cluster is not None:
        cluster.client.close()


def _node(args: argparse.Namespace, cluster: "Cluster | None") -> "Node":
    from cli.doctor.halves import claim_uids  # noqa: PLC0415
    from cli.doctor.node.agentflags import agent_flags  # noqa: PLC0415
    from cli.doctor.node.view import Node  # noqa: PLC0415

    flags = agent_flags(args.host_root)

    def said(given: str | None, name: str, usual: str) -> str:
        named = os.environ.get(f"GPUSLICE_{name.replace('-', '_').upper()}")
        return next((each for each in (given, named, flags.get(name)) if each is not None), usual)

    return Node(
        host_root=args.host_root,
        kubelet_root=said(args.kubelet_root, "kubelet-root", "/var/lib/kubelet"),
        cdi_directory=said(args.cdi_directory, "cdi-directory", "/var/run/cdi"),
        driver_root=said(args.driver_root, "nvidia-driver-root", "auto"),
        library=said(args.hami_core_library, "hami-core-library", ""),
        claim_uids=None if cluster is None else lambda: claim_uids(cluster),
    )


def _wish(args: argparse.Namespace) -> "Wish":
    from cli.doctor.halves import kubeconfig_path  # noqa: PLC0415
    from cli.doctor.preflight.preflights import Wish  # noqa: PLC0415

    return Wish(
        image=args.preflight_image,
        nodes=tuple(dict.fromkeys(args.node)),
        timeout_s=args.preflight_timeout_s,
        kubeconfig=kubeconfig_path(args.kubeconfig),
    )


def _print(findings: Sequence["Finding"], status: int, *, as_json: bool) -> None:
    from cli.doctor.document import document_of  # noqa: PLC0415
    from cli.doctor.text import lines_of  # noqa: PLC0415

    if as_json:
        sys.stdout.write(json.dumps(document_of(findings, status=status), indent=2) + "\n")
        return
    lines = lines_of(findings)
    if not sys.stdout.isatty():
        sys.stdout.write("".join(f"{line.text}\n" for line in lines))
        return
    from rich.console import Console  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    console = Console(highlight=False)
    for line in lines:
        console.print(Text(line.text, style=line.style), soft_wrap=True)


def _seconds(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0 < found < float("inf"):
        message = f"`{text}` is no number of seconds above 0"
        raise argparse.ArgumentTypeError(message)
    return found


def _fail(sentence: str) -> int:
    sys.stderr.write(f"error: {sentence}\n")
    return _USAGE
