"""The functions and types that Kubernetes adds to CEL, for the C++ engine of cel-expr-python.

Quantities and versions are protobuf messages to the engine, so its type checker tells them from
texts and numbers and `==` compares their canonical form. The engine chooses an implementation by
name and kind of argument, and both types are messages: their common functions have one
implementation, which looks at the type itself.
"""

from collections.abc import Callable
from typing import Any, Final

from cel_expr_python import cel
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from kube.quantity import Quantity, QuantityError, parse
from sim.scheduler.semver import Semver, parse_semver

_PACKAGE: Final = "kubernetes"
_CANONICAL: Final = "canonical_"
_NANO: Final = 10**9
_INT64: Final = 2**63


def _descriptor_pool() -> descriptor_pool.DescriptorPool:
    file = descriptor_pb2.FileDescriptorProto(
        name="kubernetes_cel.proto", package=_PACKAGE, syntax="proto3"
    )
    for name in ("Quantity", "Semver"):
        message = file.message_type.add(name=name)
        message.field.add(
            name=_CANONICAL,
            number=1,
            type=descriptor_pb2.FieldDescriptorProto.TYPE_STRING,
            label=descriptor_pb2.FieldDescriptorProto.LABEL_OPTIONAL,
        )
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return pool


POOL: Final = _descriptor_pool()
QUANTITY: Final = cel.Type(f"{_PACKAGE}.Quantity")
SEMVER: Final = cel.Type(f"{_PACKAGE}.Semver")
_Quantity: Final[Any] = message_factory.GetMessageClass(
    POOL.FindMessageTypeByName(f"{_PACKAGE}.Quantity")
)
_Semver: Final[Any] = message_factory.GetMessageClass(
    POOL.FindMessageTypeByName(f"{_PACKAGE}.Semver")
)


def wrap_quantity(quantity: Quantity) -> Any:
    """Return *quantity* as the engine holds it."""
    return _Quantity(**{_CANONICAL: str(quantity.nanos)})


def wrap_semver(version: Semver) -> Any:
    """Return *version* as the engine holds it."""
    return _Semver(**{_CANONICAL: str(version)})


def functions() -> list[Any]:
    """Declare all functions."""
    return [
        *_quantity_functions(),
        *_semver_functions(),
        *_shared_functions(),
        *_sets(),
        _includes(),
    ]


def _quantity_functions() -> list[Any]:
    arithmetic = [
        _declared(
            name,
            _overload(f"quantity_{name}", QUANTITY, [QUANTITY, QUANTITY], _combining(sign)),
            _overload(f"quantity_{name}_int", QUANTITY, [QUANTITY, cel.Type.INT], _adding(sign)),
        )
        for name, sign in (("add", 1), ("sub", -1))
    ]
    return [
        _declared(
            "quantity",
            _overload("string_to_quantity", QUANTITY, [cel.Type.STRING], _quantity, member=False),
        ),
        _declared(
            "isQuantity",
            _overload("is_quantity", cel.Type.BOOL, [cel.Type.STRING], _is_quantity, member=False),
        ),
        *arithmetic,
        _method("sign", cel.Type.INT, QUANTITY, lambda it: _compare(_nanos(it), 0)),
        _method("isInteger", cel.Type.BOOL, QUANTITY, _is_integer),
        _method("asInteger", cel.Type.INT, QUANTITY, _as_integer),
        _method("asApproximateFloat", cel.Type.DOUBLE, QUANTITY, lambda it: _nanos(it) / _NANO),
    ]


def _semver_functions() -> list[Any]:
    text, flag = cel.Type.STRING, cel.Type.BOOL
    return [
        _declared(
            "semver",
            _overload("string_to_semver", SEMVER, [text], _to_semver, member=False),
            _overload("string_bool_to_semver", SEMVER, [text, flag], _to_semver, member=False),
        ),
        _declared(
            "isSemver",
            _overload("is_semver", flag, [text], _is_semver, member=False),
            _overload("is_semver_bool", flag, [text, flag], _is_semver, member=False),
        ),
        _method("major", cel.Type.INT, SEMVER, lambda it: _version(it).major),
        _method("minor", cel.Type.INT, SEMVER, lambda it: _version(it).minor),
        _method("patch", cel.Type.INT, SEMVER, lambda it: _version(it).patch),
    ]


def _shared_functions() -> list[Any]:
    return [
        _comparing("compareTo", cel.Type.INT, lambda order: order),
        _comparing("isGreaterThan", cel.Type.BOOL, lambda order: order > 0),
        _comparing("isLessThan", cel.Type.BOOL, lambda order: order < 0),
    ]


def _sets() -> list[Any]:
    both, answer = [cel.Type.LIST, cel.Type.LIST], cel.Type.BOOL
    rules: dict[str, Callable[[list[Any], list[Any]], bool]] = {
        "contains": lambda one, two: all(item in one for item in two),
        "intersects": lambda one, two: any(item in one for item in two),
        "equivalent": lambda one, two: (
            all(item in one for item in two) and all(item in two for item in one)
        ),
    }
    return [
        _declared(f"sets.{name}", _overload(f"list_sets_{name}", answer, both, rule, member=False))
        for name, rule in rules.items()
    ]


def _declared(name: str, *overloads: Any) -> Any:
    return cel.FunctionDecl(name, list(overloads))


def _overload(
    identity: str,
    answer: Any,
    arguments: list[Any],
    rule: Callable[..., Any] | None,
    *,
    member: bool = True,
) -> Any:
    return cel.Overload(
        id=identity, return_type=answer, parameters=arguments, is_member=member, impl=rule
    )


def _method(name: str, answer: Any, owner: Any, rule: Callable[[Any], Any]) -> Any:
    return _declared(name, _overload(f"{owner.name()}_{name}", answer, [owner], rule))


def _includes() -> Any:
    """Declare whether a list has an item; a single value is a list of one."""

    def rule(one: Any, item: Any) -> bool:
        return item in one if isinstance(one, list) else bool(one == item)

    kinds = (cel.Type.INT, cel.Type.BOOL, cel.Type.STRING, SEMVER)
    return _declared(
        "includes",
        *(
            _overload(f"{name}_includes_{item.name()}", cel.Type.BOOL, [owner, item], rule)
            for item in kinds
            for name, owner in (("list", cel.Type.LIST), ("one", item))
        ),
    )


def _comparing(name: str, answer: Any, conclude: Callable[[int], Any]) -> Any:
    def rule(one: Any, two: Any) -> Any:
        if type(one) is not type(two):
            msg = f"{name} compares a quantity with a version"
            raise TypeError(msg)
        if isinstance(one, _Quantity):
            return conclude(_compare(_nanos(one), _nanos(two)))
        return conclude(_compare(_version(one).order(), _version(two).order()))

    return _declared(
        name,
        _overload(f"quantity_{name}", answer, [QUANTITY, QUANTITY], rule),
        _overload(f"semver_{name}", answer, [SEMVER, SEMVER], None),
    )


def _combining(sign: int) -> Callable[[Any, Any], Any]:
    return lambda one, two: wrap_quantity(Quantity(_nanos(one) + sign * _nanos(two)))


def _adding(sign: int) -> Callable[[Any, int], Any]:
    return lambda one, number: wrap_quantity(Quantity(_nanos(one) + sign * number * _NANO))


def _compare(one: Any, two: Any) -> int:
    return int(one > two) - int(one < two)


def _nanos(message: Any) -> int:
    return int(getattr(message, _CANONICAL))


def _version(message: Any) -> Semver:
    return parse_semver(getattr(message, _CANONICAL))


def _quantity(text: str) -> Any:
    return wrap_quantity(parse(text))


def _is_quantity(text: str) -> bool:
    try:
        parse(text)
    except QuantityError:
        return False
    return True


def _is_integer(message: Any) -> bool:
    nanos = _nanos(message)
    return nanos % _NANO == 0 and -_INT64 <= nanos // _NANO < _INT64


def _as_integer(message: Any) -> int:
    if not _is_integer(message):
        raise ValueError("the quantity is no 64-bit integer")
    return _nanos(message) // _NANO


def _to_semver(text: str, *loose: bool) -> Any:
    return wrap_semver(parse_semver(text, loose=any(loose)))


def _is_semver(text: str, *loose: bool) -> bool:
    try:
        parse_semver(text, loose=any(loose))
    except ValueError:
        return False
    return True
