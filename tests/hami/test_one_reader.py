"""Only one module makes numbers of what users wrote as quantities.

Each further reader is a place where 16Gi can become 0 again, or `5k` an error.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import hami

_ROOT = Path(hami.__file__).parent.parent
_FOLDERS = ("hami", "webhook", "extender")
_QUANTITIES = {
    "extender/state/bounds.py": "what a ResourceQuota allows",
    "extender/state/registry.py": "what a node can give",
    "extender/synthesis.py": "what a node has",
    "hami/amounts.py": "what pods ask",
    "webhook/booking.py": "what claims were given",
    "webhook/claimspec.py": "what claims ask",
    "webhook/quotas.py": "what a ResourceQuota allows",
    "webhook/slicefacts.py": "what slices publish",
}
"""Who reads Kubernetes' quantities, and of what."""
_NUMBERS = {
    "hami/amounts.py": "what pods ask",
    "hami/nodeconfig.py": "numbers that were read already",
    "hami/plugin/figures.py": "yes and no",
    "hami/plugin/granting.py": "the priority of a container, digits alone",
    "hami/plugin/ownnode.py": "the version of an object, digits alone",
    "hami/preference_reading.py": "scoring weights",
}
"""Who makes numbers of texts."""


def _quantities(source: str) -> Iterator[str]:
    """Yield each use of Kubernetes' parser."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.ImportFrom(module="kube.quantity", names=found):
                yield from (f"imports {each.name}" for each in found if each.name == "parse")
            case (
                ast.Attribute(value=ast.Name(id="quantity"), attr="parse")
                | ast.Attribute(value=ast.Attribute(attr="quantity"), attr="parse")
            ):
                yield "uses quantity.parse"
            case _:
                pass


def _numbers(source: str) -> Iterator[str]:
    """Yield each number made of a member of something: `int(limits[name])` and the like."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(func=ast.Name(id="int" | "float" | "Decimal"), args=[first, *_]):
                member = ast.Subscript | ast.Attribute
                if isinstance(first, member) or (
                    isinstance(first, ast.Call)
                    and isinstance(first.func, ast.Attribute)
                    and first.func.attr == "get"
                ):
                    yield ast.unparse(node)
            case _:
                pass


def _modules() -> list[Path]:
    return [path for folder in _FOLDERS for path in sorted((_ROOT / folder).rglob("*.py"))]


@pytest.mark.parametrize("path", _modules(), ids=lambda path: str(path.relative_to(_ROOT)))
def test_no_other_reader(path: Path) -> None:
    """A module that is not named here reads no quantity and makes no numbers of members."""
    name, source = path.relative_to(_ROOT).as_posix(), path.read_text()
    assert name in _QUANTITIES or not list(_quantities(source))
    assert name in _NUMBERS or not name.startswith("hami/") or not list(_numbers(source))


@pytest.mark.parametrize(
    "source",
    [
        "from kube.quantity import parse",
        "from kube import quantity\nquantity.parse(text)",
        "from kube import quantity\nread = quantity.parse",
        "import kube.quantity\nkube.quantity.parse(text)",
        "import kube\nkube.quantity.parse(text)",
    ],
)
def test_a_parser_is_found(source: str) -> None:
    """The ways to the parser are known."""
    assert list(_quantities(source))


@pytest.mark.parametrize(
    "source",
    ["int(limits['nvidia.com/gpu'])", "int(limits.get(name))", "float(limits[name])", "int(a.raw)"],
)
def test_a_number_is_found(source: str) -> None:
    """The ways to read a quantity by oneself are known."""
    assert list(_numbers(source))


@pytest.mark.parametrize(
    "source", ["from kube import quantity\nquantity.whole(5)", "int(text)", "x.parse(y)"]
)
def test_no_reader_is_found(source: str) -> None:
    """What writes quantities or reads other numbers is left alone."""
    assert not [*_quantities(source), *_numbers(source)]
