"""`gpuslice convert`: manifests in HAMi's words with claims instead, without a cluster.

It prints everything that it was given, and the claim templates before what names them. Comments
are not kept. The exit status tells a script whether all could be converted (0), something was
refused and nothing printed (1), or a file could not be read (2).
"""

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from cli.extras import needing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cli.convert.conversion import Converted
    from hami.deviceconfig import DeviceConfig

_REFUSED = 1
_FAILED = 2
_STDIN = "-"


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `convert` to the commands of `gpuslice`."""
    parser = subparsers.add_parser(
        "convert", help="turn HAMi's GPU limits in manifests into claims"
    )
    parser.add_argument("files", nargs="+", metavar="FILE", help="YAML or JSON; - is stdin")
    parser.add_argument(
        "--device-config", type=Path, metavar="FILE", help="HAMi's device-config.yaml"
    )
    parser.add_argument(
        "--sizes",
        type=_sizes,
        default=(),
        metavar="MIB,...",
        help="total memory of the GPUs that there are, for percentages of it",
    )
    parser.add_argument("--json", action="store_true", help="print one List as JSON")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the manifests with claims; 1 if one is refused, 2 if one cannot be read."""
    with needing("webhook"):
        from cli.convert.conversion import Converter  # noqa: F401, PLC0415
        from cli.convert.errors import ManifestError  # noqa: PLC0415
        from cli.convert.writing import yaml_of  # noqa: F401, PLC0415
        from hami.deviceconfig import DeviceConfigError  # noqa: PLC0415
    try:
        converted = list(_converted(args, _config(args.device_config)))
    except (ManifestError, DeviceConfigError, OSError, UnicodeDecodeError) as error:
        return _fail(str(error))
    refusals = [text for each in converted for text in each.refusals]
    for text in refusals:
        sys.stderr.write(f"refused: {text}\n")
    if refusals:
        return _REFUSED
    (_print_json if args.json else _print_yaml)(converted)
    return 0


def _sizes(text: str) -> tuple[int, ...]:
    sizes = tuple(int(part) for part in text.split(","))
    if min(sizes) <= 0:
        raise ValueError
    return sizes


def _config(path: Path | None) -> "DeviceConfig":
    from hami.deviceconfig import DeviceConfig, DeviceConfigError, parse  # noqa: PLC0415

    if path is None:
        # As the webhook without one: other vendors' devices are nobody's business here.
        return DeviceConfig(vendors=())
    try:
        config = parse(path.read_text(encoding="utf-8"))
    except DeviceConfigError as error:
        message = f"{path}: {error}"
        raise DeviceConfigError(message) from error
    for warning in config.warnings:
        sys.stderr.write(f"warning: {path}: {warning}\n")
    return config


def _converted(args: argparse.Namespace, config: "DeviceConfig") -> "Iterator[Converted]":
    from dataclasses import replace  # noqa: PLC0415

    from cli.convert.conversion import Converter  # noqa: PLC0415
    from cli.convert.errors import ManifestError  # noqa: PLC0415
    from cli.convert.reading import documents  # noqa: PLC0415
    from cli.convert.telling import Telling  # noqa: PLC0415

    converter = Converter(config=config, sizes_mib=args.sizes)
    for name in args.files:
        text = sys.stdin.read() if name == _STDIN else Path(name).read_text(encoding="utf-8")
        try:
            for item, warnings in documents(text):
                told = Telling(item)
                told.warn(warnings)
                found = converter.convert(item)
                yield replace(found, warnings=(*told.warnings, *found.warnings))
        except ManifestError as error:
            message = f"{name}: {error}"
            raise ManifestError(message) from error


def _print_yaml(converted: "list[Converted]") -> None:
    from cli.convert.writing import yaml_of  # noqa: PLC0415

    for each in converted:
        for template in each.templates:
            sys.stdout.write(f"---\n{yaml_of(template)}")
        sys.stdout.write("---\n")
        for warning in each.warnings:
            sys.stdout.write(f"# warning: {warning}\n")
        sys.stdout.write(yaml_of(each.item))


def _print_json(converted: "list[Converted]") -> None:
    for each in converted:
        for warning in each.warnings:
            sys.stderr.write(f"warning: {warning}\n")
    items = [item for each in converted for item in (*each.templates, each.item)]
    whole = {"apiVersion": "v1", "kind": "List", "items": items}
    sys.stdout.write(json.dumps(whole, indent=2) + "\n")


def _fail(sentence: str) -> int:
    sys.stderr.write(f"error: {sentence}\n")
    return _FAILED
