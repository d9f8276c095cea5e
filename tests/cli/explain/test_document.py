"""The documentation names every code and every field."""

import re
from dataclasses import fields
from pathlib import Path

from cli.explain.deciders import Decider
from cli.explain.legacywords import token_code
from extender.fitting.reasons import Reason
from sim.explain.model import (
    Asked,
    Change,
    DeviceReason,
    Explanation,
    Given,
    Holder,
    NodeReason,
    Subject,
    Verdict,
)

ROOT = Path(__file__).parents[3]
DOCUMENT = (ROOT / "docs" / "explain.md").read_text(encoding="utf-8")
CODE = re.compile(r'"([A-Z][a-z]+(?:[A-Z][a-z]+)+)"')
NO_CODES = {
    *("ResourceClaim", "ResourceSlice", "ResourceClaimTemplate", "DeviceClass", "DeviceTaintRule"),
    *("PodScheduled", "NotAllowed", "ResourceQuota"),
}


def test_every_code_is_documented() -> None:
    """Who meets a code finds what it means."""
    folders = (ROOT / "sim" / "explain", ROOT / "cli" / "explain")
    sources = [path for folder in folders for path in folder.rglob("*.py")]
    text = "".join(path.read_text(encoding="utf-8") for path in sources)
    codes = set(CODE.findall(text)) - NO_CODES | {token_code(each) for each in Reason}
    assert len(codes) > 30
    assert [code for code in sorted(codes) if f"`{code}`" not in DOCUMENT] == []


def test_every_field_is_documented() -> None:
    """Programs read the names of fields there."""
    kinds = (Asked, Change, DeviceReason, Explanation, Given, Holder, NodeReason, Subject)
    names = {field.name for kind in kinds for field in fields(kind)} | {*Verdict, *Decider}
    assert [name for name in sorted(names) if f"`{name}`" not in DOCUMENT] == []
