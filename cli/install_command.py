"""`gpuslice install-library`: HAMi-core's library from an image onto the node.

For an init container: one before it, of the library's own image, copies the library to a directory
that both mount. What is said goes to the container's log, one line each.
"""

import argparse
import sys
from pathlib import Path

from cdi.compatibility import version_of
from cdi.errors import CdiError
from gpu.refusal import RefusedError
from hami.delivery.installing import Installed, install

FAILED = 1


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `install-library` to the commands of `gpuslice`."""
    parser = subparsers.add_parser(
        "install-library", help="copy HAMi-core's libvgpu.so from an image onto this node"
    )
    parser.add_argument(
        "--from",
        dest="source",
        type=Path,
        required=True,
        metavar="DIR",
        help="directory that holds one libvgpu.so or libvgpu.so.<release>",
    )
    parser.add_argument(
        "--to",
        dest="target",
        type=Path,
        required=True,
        metavar="DIR",
        help="the node's directory of libraries; its libvgpu.so is what --hami-core-library names",
    )
    parser.add_argument(
        "--manifest",
        type=Path,
        metavar="FILE",
        help="what is known of the library (default: beside it, with .manifest.json at the end)",
    )
    parser.add_argument(
        "--oldest-glibc",
        type=_release,
        metavar="X.Y",
        help="refuse a library that needs a newer glibc than that of your oldest image",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Install the library; 1 if it is unfit or cannot be written."""
    try:
        installed = install(
            args.source, args.target, manifest=args.manifest, oldest_glibc=args.oldest_glibc or ""
        )
    except (RefusedError, CdiError) as error:
        sys.stderr.write(f"error: {error}\n")
        return FAILED
    for warning in installed.warnings:
        sys.stderr.write(f"warning: {warning}\n")
    sys.stdout.write("\n".join(_lines(installed)) + "\n")
    return 0


def _lines(installed: Installed) -> list[str]:
    library, needs = installed.library, installed.found.needs
    known = library.compatibility
    lines = [
        f"library: {library.host_library_path}",
        f"sha256: {library.sha256}",
        f"release: {known.version or 'unknown'}"
        + (" (by the name of its file)" if installed.found.is_made and known.version else ""),
        f"region: {known.layout or 'unknown'}",
        f"needs /tmp/vgpulock: {'yes' if known.needs_lock_directory else 'no'}",
    ]
    if needs and needs.minimum:
        lines.append(f"needs glibc: {needs.minimum_text}")
    return lines


def _release(text: str) -> str:
    try:
        version_of(text)
    except ValueError as error:
        message = f"`{text}` is no release such as 2.28"
        raise argparse.ArgumentTypeError(message) from error
    return text
