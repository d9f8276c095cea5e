"""The form of what `gpuslice explain --json` prints, as users may rely on it."""

from typing import Any

from tests.sim.explain.world import Json

TEXT = {"type": "string"}
REFUSAL = {
    "type": "object",
    "required": ["code", "field", "value", "limit", "remedy"],
    "additionalProperties": False,
    "properties": {
        "code": {"type": "string", "pattern": "^[A-Z][A-Za-z0-9]+$"},
        **dict.fromkeys(("field", "value", "limit", "remedy"), TEXT),
    },
}


def _object(**properties: Any) -> Json:
    return {
        "type": "object",
        "required": list(properties),
        "additionalProperties": False,
        "properties": properties,
    }


def _list(items: Any) -> Json:
    return {"type": "array", "items": items}


AMOUNTS = {"type": "object", "additionalProperties": TEXT}
HOLDER = _object(claim=TEXT, pods=_list(TEXT), amount=TEXT)
DEVICE = _object(
    claim=TEXT,
    request=TEXT,
    driver=TEXT,
    pool=TEXT,
    device=TEXT,
    refusal=REFUSAL,
    holders=_list(HOLDER),
)
SCHEMA = _object(
    format={"const": 1},
    decided_by={"enum": ["claims", "annotations"]},
    subject=_object(kind={"enum": ["Pod", "ResourceClaim"]}, namespace=TEXT, name=TEXT),
    verdict={"enum": ["fits", "pending", "allocated", "scheduled", "finished"]},
    message=TEXT,
    release={"type": "string", "pattern": r"^1\.\d+$"},
    gates={"type": "object", "additionalProperties": {"type": "boolean"}},
    node=TEXT,
    asked=_list(
        _object(
            claim=TEXT,
            request=TEXT,
            device_class=TEXT,
            count={"type": ["integer", "null"]},
            capacity=AMOUNTS,
            admin_access={"type": "boolean"},
        )
    ),
    given=_list(
        _object(claim=TEXT, request=TEXT, driver=TEXT, pool=TEXT, device=TEXT, consumed=AMOUNTS)
    ),
    reasons=_list(REFUSAL),
    nodes=_list(_object(node=TEXT, refusal=REFUSAL, devices=_list(DEVICE))),
    nodes_total={"type": "integer"},
    changes=_list(
        _object(code=TEXT, field=TEXT, before=TEXT, after=TEXT, sentence=TEXT, node=TEXT)
    ),
    scheduler_says=TEXT,
    notes=_list(TEXT),
)
