"""Build what the chart's tests run, and render the manifests: `python -m tests.charts`."""

import argparse
import sys
from collections.abc import Sequence

from charts.values import migration, reference, schema
from tests.charts import manifests, tools
from tests.cluster.errors import ClusterError


def main(arguments: Sequence[str]) -> int:
    """Run one command."""
    parser = argparse.ArgumentParser(prog="python -m tests.charts", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("build", help="build helm 3 and 4 and the judge of pods")
    commands.add_parser("manifests", help="make manifests/, the schema and the reference anew")
    commands.add_parser("values", help="make the schema and the reference alone")
    chosen = parser.parse_args(arguments)
    try:
        if chosen.command in {"manifests", "values"}:
            # Before helm reads the schema.
            schema.FILE.write_text(schema.text())
            reference.FILE.write_text(reference.text())
            migration.FILE.write_text(migration.text())
        if chosen.command != "values":
            tools.build()
        if chosen.command == "manifests":
            manifests.write()
    except ClusterError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
