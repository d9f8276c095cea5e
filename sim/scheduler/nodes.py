"""Whether a node matches a node selector, as node affinity does (core/v1 NodeSelector).

Terms are alternatives, requirements of one term all hold; an empty term matches nothing.
`matchFields` knows only `metadata.name`.
"""

from dataclasses import dataclass, field

from kube.objects import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """What the allocator needs to know of a node."""

    name: str
    labels: dict[str, str] = field(default_factory=dict)


def parse_node(node: JsonObject) -> Node:
    """Read a core/v1 Node."""
    metadata = node.get("metadata") or {}
    return Node(name=metadata.get("name", ""), labels=dict(metadata.get("labels") or {}))


def selects(selector: JsonObject, node: Node) -> bool:
    """Tell whether any term of *selector* matches *node*."""
    return any(_term_matches(term, node) for term in selector.get("nodeSelectorTerms") or ())


def _term_matches(term: JsonObject, node: Node) -> bool:
    expressions = term.get("matchExpressions") or ()
    fields = term.get("matchFields") or ()
    if not expressions and not fields:
        return False
    return all(_holds(item, node.labels.get(item.get("key", ""))) for item in expressions) and all(
        item.get("key") == "metadata.name" and _holds(item, node.name) for item in fields
    )


def _holds(requirement: JsonObject, value: str | None) -> bool:
    operator, values = requirement.get("operator"), requirement.get("values") or []
    match operator:
        case "In":
            return value is not None and value in values
        case "NotIn":
            return value is None or value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            return _compares(operator, value, values)
        case _:
            return False


def _compares(operator: str, value: str | None, values: list[str]) -> bool:
    try:
        have, limit = int(value or ""), int(values[0])
    except (ValueError, IndexError):
        return False
    return have > limit if operator == "Gt" else have < limit
