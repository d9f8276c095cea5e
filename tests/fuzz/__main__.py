"""Runs the targets from the command line: one line for each, and every finding in full.

    python -m tests.fuzz --inputs 1000000 --seed 1
    python -m tests.fuzz --target quantity --seed 1 --first 4711 --inputs 1

The second form makes one input again.
"""

import argparse
import sys
import time

from tests.fuzz.running import SEED, Report, run
from tests.fuzz.targets import MAKERS, shares

_HEADINGS = ("target", "inputs", "accepted", "our errors", "seconds", "slowest ms", "its number")


def main() -> int:
    """Run what the arguments ask for; 1 when anything was found."""
    arguments = _arguments()
    _say("{:<20}{:>10}{:>10}{:>12}{:>10}{:>12}{:>12}".format(*_HEADINGS))
    began_s = time.monotonic()
    reports = []
    for maker, number in shares(arguments.inputs).items():
        target = maker()
        if arguments.target and target.name != arguments.target:
            continue
        inputs = arguments.inputs if arguments.target else number
        try:
            report = run(target, inputs=inputs, seed=arguments.seed, first=arguments.first)
        finally:
            target.close()
        reports.append(report)
        _tell(report)
    inputs = sum(report.inputs for report in reports)
    findings = sum(len(report.findings) for report in reports)
    seconds = time.monotonic() - began_s
    _say(f"{inputs} inputs, seed {arguments.seed}, {findings} findings, {seconds:.0f} s")
    return 1 if findings else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("--inputs", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--first", type=int, default=0, help="number of the first input")
    names = [maker().name for maker in MAKERS]
    parser.add_argument("--target", choices=names, help="only this one, with all inputs")
    return parser.parse_args()


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _tell(report: Report) -> None:
    numbers = (report.inputs, report.accepted, report.refused)
    counts = "".join(
        f"{number:>{width}}" for number, width in zip(numbers, (10, 10, 12), strict=True)
    )
    slowest = f"{report.slowest_s * 1000:>12.1f}{report.slowest:>12}"
    _say(f"{report.name:<20}{counts}{report.seconds:>10.1f}{slowest}")
    for finding in report.findings:
        where = f"--target {report.name} --seed {report.seed} --first {finding.number} --inputs 1"
        _say(f"\nFOUND by python -m tests.fuzz {where}\n{finding.error}\n{finding.trace}")
        try:
            _say(f"smallest input: {finding.sample!a:.2000}\n")
        except (RecursionError, ValueError):
            _say("the input is too deep or too long to show\n")


if __name__ == "__main__":
    sys.exit(main())
