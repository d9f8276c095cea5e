"""`gpuslice explain`: why a pod or claim waits, and the smallest change that helps.

It reads a cluster or a folder of what kubectl has printed, and writes nothing. The exit status
tells a script whether the subject fits (0), waits for something (1), or could not be looked at (2).
"""

import argparse
import gc
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cli.explain.deciders import Decider
    from cli.explain.source import Found
    from sim.explain.model import Explanation

_PENDING = 1
_FAILED = 2


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `explain` to the commands of `gpuslice`."""
    parser = subparsers.add_parser("explain", help="say why a pod or claim is pending")
    parser.add_argument("kind", choices=("pod", "claim"), help="what to explain")
    parser.add_argument("name", metavar="NAME", help="its name")
    parser.add_argument("-n", "--namespace", help="its namespace (default: the kubeconfig's)")
    parser.add_argument(
        "--from",
        dest="source",
        type=Path,
        metavar="PATH",
        help="a kubeconfig, or a file or folder of `kubectl get -o json|yaml` outputs"
        " (default: the cluster that this runs in)",
    )
    parser.add_argument("--release", metavar="MINOR", help="whose rules to apply, such as 1.37")
    parser.add_argument(
        "--feature-gates",
        default="",
        metavar="NAME=true,...",
        help="gates of the scheduler that are neither the release's default nor show",
    )
    parser.add_argument(
        "--device-config",
        type=Path,
        metavar="FILE",
        help="HAMi's device-config.yaml, for pods about which its protocol decides"
        " (default: NVIDIA's usual names)",
    )
    parser.add_argument(
        "--legacy-scheduler",
        default="hami-scheduler",
        metavar="NAME",
        help="the scheduler that decides about these pods (default: hami-scheduler)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON for programs")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the explanation; 1 while it waits, 2 if there is none."""
    # The rules need the simulation, which is an extra and heavy: only this command pays for it.
    try:
        from cli.explain.errors import InputError  # noqa: PLC0415
        from sim.explain.errors import ExplainError  # noqa: PLC0415
        from sim.explain.model import Verdict  # noqa: PLC0415
        from sim.scheduler import cel  # noqa: F401, PLC0415
    except ImportError as error:
        return _fail(f"the rules are not installed: {error}; install `gpuslice[sim]`")
    # Nothing here lives long, and a big cluster is a million objects to look through in vain.
    gc.disable()
    try:
        said, decided_by = _explain(args)
    except (InputError, ExplainError) as error:
        return _fail(str(error))
    finally:
        gc.enable()
    _print(said, decided_by, as_json=args.json)
    return _PENDING if said.verdict is Verdict.PENDING else 0


def _fail(sentence: str) -> int:
    sys.stderr.write(f"error: {sentence}\n")
    return _FAILED


def _explain(args: argparse.Namespace) -> "tuple[Explanation, Decider]":
    from dataclasses import replace  # noqa: PLC0415

    from cli.explain.deciders import Decider  # noqa: PLC0415
    from cli.explain.source import read  # noqa: PLC0415
    from kube.objects import ObjectKey  # noqa: PLC0415
    from sim.explain.explainer import explain_claim, explain_pod  # noqa: PLC0415
    from sim.explain.rules import rules_of  # noqa: PLC0415

    found = read(args.source, args.namespace)
    legacy = _explain_legacy(args, found) if args.kind == "pod" else None
    if legacy is not None:
        return replace(legacy, notes=(*found.notes, *legacy.notes)), Decider.ANNOTATIONS
    version = args.release or found.version
    rules = rules_of(version, found.snapshot, gates=_gates(args.feature_gates))
    explain = explain_pod if args.kind == "pod" else explain_claim
    said = explain(found.snapshot, ObjectKey(found.namespace, args.name), rules=rules)
    notes = (*found.notes, *found.claim_notes, *said.notes)
    return replace(said, notes=notes), Decider.CLAIMS


def _explain_legacy(args: argparse.Namespace, found: "Found") -> "Explanation | None":
    """Explain a pod about which HAMi's protocol decides; nothing for any other."""
    from cli.explain import protocol  # noqa: PLC0415
    from cli.explain.errors import InputError  # noqa: PLC0415
    from kube.objects import ObjectKey  # noqa: PLC0415

    pod = found.snapshot.pods.get(ObjectKey(found.namespace, args.name))
    config = protocol.configuration(args.device_config)
    if pod is None or not protocol.decides(pod, found.snapshot, config):
        return None
    try:
        from cli.explain.legacy import Material, Terms, explain_legacy  # noqa: PLC0415
    except ImportError as error:
        message = f"HAMi's rules are not installed: {error}; install `gpuslice[extender]`"
        raise InputError(message) from error
    material = Material(
        snapshot=found.snapshot,
        quotas=found.quotas,
        version=args.release or found.version,
        now=found.seen_at,
    )
    terms = Terms(config=config, scheduler_name=args.legacy_scheduler)
    return explain_legacy(material, pod, terms)


def _gates(text: str) -> dict[str, bool]:
    from cli.explain.errors import InputError  # noqa: PLC0415

    gates = {}
    for part in filter(None, text.split(",")):
        name, _, value = part.partition("=")
        if value not in {"true", "false"}:
            message = f"`{part}` is no feature gate: write NAME=true or NAME=false"
            raise InputError(message)
        gates[name] = value == "true"
    return gates


def _print(said: "Explanation", decided_by: "Decider", *, as_json: bool) -> None:
    from cli.explain.document import document_of  # noqa: PLC0415
    from cli.explain.text import lines_of  # noqa: PLC0415

    if as_json:
        sys.stdout.write(json.dumps(document_of(said, decided_by), indent=2) + "\n")
        return
    lines = lines_of(said, decided_by)
    if not sys.stdout.isatty():
        sys.stdout.write("".join(f"{line.text}\n" for line in lines))
        return
    from rich.console import Console  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    console = Console(highlight=False)
    for line in lines:
        console.print(Text(line.text, style=line.style), soft_wrap=True)
