"""`python -m image build` makes the archive of the image, `python -m image base` a fresh base."""

import argparse
import sys
from collections.abc import Sequence

from image import base
from image.builders import KNOWN
from image.errors import ImageError
from image.making import Wishes, make
from image.places import cache_folder


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what is asked; 1 when that cannot be done."""
    parser = argparse.ArgumentParser(prog="python -m image", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    building = commands.add_parser("build", help="build the image, unless that was done")
    building.add_argument("--builder", choices=("", *KNOWN), default="", help="default: any")
    building.add_argument("--base", default="", help="the base image; default: one of our own")
    building.add_argument("--suite", default=base.SUITE, help="the release of Debian for that")
    fetching = commands.add_parser("base", help="make a base image of Debian's newest packages")
    fetching.add_argument("--suite", default=base.SUITE)
    chosen = parser.parse_args(arguments)
    try:
        if chosen.command == "base":
            found = base.context(cache_folder(), chosen.suite, anew=True)
        else:
            found = make(Wishes(builder=chosen.builder, base=chosen.base, suite=chosen.suite))
    except ImageError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    sys.stdout.write(f"{found}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
