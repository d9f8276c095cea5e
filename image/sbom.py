"""Writes what is in the image, as a CycloneDX document.

Run in the image's build. The packages are told by `cyclonedx-py` from the environment itself, not
from the file of pins, so what was forgotten there is named all the same. What was taken of the
distribution is added from the files that `rootfs` has left.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator
from email.parser import Parser
from pathlib import Path
from typing import Any, Final

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL

_SCHEMA: Final = SchemaVersion.V1_6


def document(python: Path, root: Path, pyproject: Path) -> str:
    """Return the document on the environment of *python* and the system's files in *root*."""
    command = Path(sys.executable).parent / "cyclonedx-py"
    told = subprocess.run(
        [
            command, "environment", "--pyproject", pyproject, "--mc-type", "application",
            "--spec-version", _SCHEMA.to_version(), "--output-reproducible",
            "--output-format", "JSON", "--output-file", "-", python,
        ],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    bom = json.loads(told.stdout)
    licences = json.loads(_asked(python))
    for component in bom["components"]:
        # What a package says in words of its own, where it says nothing that a machine knows.
        own_words = licences.get(component["name"])
        if not component.get("licenses") and own_words:
            component["licenses"] = [{"license": {"name": own_words}}]
    bom["components"] += [_interpreter(root), *_system_packages(root)]
    bom["components"].sort(key=lambda component: str(component["bom-ref"]))
    text = json.dumps(bom, indent=2) + "\n"
    wrong = JsonStrictValidator(_SCHEMA).validate_str(text)
    if wrong is not None:
        message = f"the document is not valid: {wrong}"
        raise SystemExit(message)
    return text


def _asked(python: Path) -> str:
    question = (
        "import json; from importlib.metadata import distributions as all_;"
        "print(json.dumps({each.name: each.metadata.get('License') for each in all_()}))"
    )
    told = subprocess.run([python, "-c", question], check=True, capture_output=True, text=True)
    return told.stdout


def _interpreter(root: Path) -> dict[str, Any]:
    version = (root / "usr/share/gpuslice/python-version").read_text(encoding="utf-8").strip()
    return {
        "type": "platform",
        "bom-ref": f"python@{version}",
        "name": "python",
        "version": version,
        "licenses": [{"license": {"id": "Python-2.0"}}],
        "purl": str(PackageURL("generic", name="python", version=version)),
    }


def _system_packages(root: Path) -> Iterator[dict[str, Any]]:
    for status in sorted((root / "var/lib/dpkg/status.d").iterdir()):
        fields = Parser().parsestr(status.read_text(encoding="utf-8"))
        purl = PackageURL(
            "deb",
            "debian",
            fields["Package"],
            fields["Version"],
            {"arch": fields["Architecture"]},
        )
        yield {
            "type": "library",
            "bom-ref": str(purl),
            "name": fields["Package"],
            "version": fields["Version"],
            "purl": str(purl),
        }


def main() -> None:
    """Read the arguments and write the document."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--python", type=Path, required=True)
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--pyproject", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    chosen = parser.parse_args()
    text = document(chosen.python, chosen.root, chosen.pyproject)
    chosen.output.parent.mkdir(parents=True, exist_ok=True)
    chosen.output.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
