"""Tests of the one reader of quantities."""

from typing import Any

import pytest
from hypothesis import given as with_examples
from hypothesis import strategies as st

from gpu.refusal import RefusedError
from hami import amounts
from hami.amounts import MEMORY_LIMIT_MIB, Given
from hami.containers import Container, all_containers
from kube import quantity

_NUMBERS = st.integers(0, 10**22).map(str) | st.decimals(
    0, 10**12, allow_nan=False, allow_infinity=False, places=3
).map(str)
_SUFFIXES = st.sampled_from(
    ["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "e3"]
)
_QUANTITIES = st.builds(
    lambda sign, number, suffix: sign + number + suffix,
    st.sampled_from(["", "", "+", "-"]),
    _NUMBERS,
    _SUFFIXES,
)


def container(**resources: Any) -> Container:
    """Return the only container of a pod, with *resources*."""
    pod = {"spec": {"containers": [{"name": "main", "resources": resources}]}}
    return all_containers(pod)[0]


def said(raw: Any) -> Given:
    """Return *raw* as the limit of a resource."""
    found = amounts.given(container(limits={"a.example/b": raw}), "a.example/b")
    assert found is not None
    return found


def refusal_of(raw: Any, *, factor: int = 1) -> str:
    """Return why *raw* is no size of memory."""
    with pytest.raises(RefusedError) as caught:
        amounts.memory(said(raw), factor=factor)
    return str(caught.value)


@pytest.mark.parametrize(
    ("raw", "mib"),
    [
        ("5k", 5000),
        ("20k", 20000),
        ("1M", 1_000_000),
        ("3072", 3072),
        ("2e3", 2000),
        ("1.0", 1),
        ("3000000m", 3000),
        (512, 512),
        (512.0, 512),
        ("16777216", MEMORY_LIMIT_MIB),
        ("16Ti", MEMORY_LIMIT_MIB),
        ("1024Ki", 1),
        ("1.5Gi", 1536),
        ("0Gi", 0),
        ("0", 0),
    ],
)
def test_memory(raw: Any, mib: int) -> None:
    """A bare number is MiB, one with a binary suffix is bytes."""
    assert amounts.memory(said(raw)).mib == mib


@pytest.mark.parametrize(
    ("raw", "code", "part"),
    [
        ("16777217", "MemoryTooLarge", "16777217 MiB exceeds the limit 16777216 MiB"),
        ("16G", "MemoryTooLarge", "write 16Gi or 16384"),
        ("2T", "MemoryTooLarge", "write 2Ti or 2097152"),
        ("20M", "MemoryTooLarge", "write 20Mi or 20"),
        ("17179869184", "MemoryTooLarge", "write 16384Mi or 16384"),
        ("17Ti", "MemoryTooLarge", "exceeds"),
        ("9E", "MemoryTooLarge", "exceeds"),
        ("10E", "AmountUnreadable", "the largest is"),
        ("1536Ki", "MemoryNotWholeMiB", "not a whole MiB"),
        ("1m", "AmountNotWhole", "must be a whole number of MiB"),
        ("-1", "AmountOutOfRange", "must not be negative"),
        ("-1Gi", "AmountOutOfRange", "must not be negative"),
        ("5K", "AmountUnreadable", "small `k`"),
        ("", "AmountUnreadable", "it is empty"),
        ("NaN", "AmountUnreadable", "does not begin with a number"),
        ("1_000", "AmountUnreadable", ""),
        ("٣", "AmountUnreadable", ""),
        (None, "AmountUnreadable", "null"),
        (True, "AmountUnreadable", "true"),
        ([], "AmountUnreadable", "[]"),
        (float("inf"), "AmountUnreadable", ""),
    ],
)
def test_no_memory(raw: Any, code: str, part: str) -> None:
    """What is no size in bounds is refused, with a remedy where the meaning is plain."""
    why = refusal_of(raw)
    assert why.startswith(f"{code}: spec.containers{{main}}.resources.limits[a.example/b]: ")
    assert part in why
    assert len(why.encode()) < 400


def test_monsters() -> None:
    """Numbers and texts of absurd length, and halves of characters, make short answers."""
    monsters: tuple[Any, ...] = (10**5000, "x" * 300_000, "\ud800", "1\n", [[[]] * 1000])
    for raw in monsters:
        why = refusal_of(raw)
        assert why.startswith("AmountUnreadable")
        assert why.isprintable()
        assert len(why.encode()) < 400


def test_the_factor_is_applied_before_the_bound() -> None:
    """A number that is in bounds only before scaling is refused; bytes are not scaled."""
    assert amounts.memory(said("16384"), factor=1024).mib == MEMORY_LIMIT_MIB
    assert "16778240 MiB exceeds" in refusal_of("16385", factor=1024)
    found = amounts.memory(said("16Gi"), factor=1024)
    assert (found.mib, found.units) == (16384, 16)
    assert "1025 MiB is not a multiple of 1024 MiB" in refusal_of("1025Mi", factor=1024)
    assert "write 16Gi or 16" in refusal_of("16G", factor=1024)
    assert amounts.memory(said("5"), factor=0).mib == 5


@with_examples(_QUANTITIES, st.sampled_from([0, 1, 10, 256, 512, 1024]))
def test_no_quantity_becomes_a_silent_zero(text: str, factor: int) -> None:
    """A size is exactly what was written, in bounds; or it is refused."""
    try:
        found = amounts.memory(said(text), factor=factor)
    except RefusedError:
        return
    assert 0 <= found.mib <= MEMORY_LIMIT_MIB
    assert found.units * max(1, factor) == found.mib
    written = quantity.parse(text).nanos
    unit = 1 << 20 if text.endswith("i") else 1
    scale = 1 if text.endswith("i") else max(1, factor)
    assert found.mib * unit * 10**9 == written * scale


@with_examples(_QUANTITIES)
def test_canonical_text_means_the_same(text: str) -> None:
    """What the API server makes of a quantity is read like the quantity."""
    try:
        canonical = quantity.parse(text).canonical()
    except quantity.QuantityError:
        return
    results = []
    for each in (text, canonical):
        try:
            results.append(str(amounts.whole(said(each), at_most=100)))
        except RefusedError as error:
            results.append(error.refusal.code)
    assert results[0] == results[1]


def test_whole() -> None:
    """A whole number in bounds is taken; the bounds are named."""
    assert amounts.whole(said("100"), at_most=100) == 100
    for raw, part in (("101", "must be 0..100"), ("-1", "must be 0..100"), ("x", "must be 0..100")):
        with pytest.raises(RefusedError, match=part):
            amounts.whole(said(raw), at_most=100)
    with pytest.raises(RefusedError, match=r"must be 1\.\.100"):
        amounts.whole(said("0"), at_least=1, at_most=100)


@pytest.mark.parametrize(
    ("raw", "percent"), [("500m", 50), ("0.1", 10), ("1m", 1), ("1500m", None), ("2", None)]
)
def test_fraction(raw: str, percent: int | None) -> None:
    """A part of one device is said in percent, at least 1."""
    assert amounts.fraction_percent(said(raw)) == percent


@pytest.mark.parametrize(
    ("raw", "plain"),
    [
        ("5k", True), ("3072", True), ("2e3", True), (7, True),
        ("16Gi", False), ("1.0", False), ("1000m", False), (7.0, False), ("10e-1", False),
        ("+1", False), ("1E2", True),
    ],
)  # fmt: skip
def test_plain(*, raw: Any, plain: bool) -> None:
    """HAMi's scheduler takes binary suffixes for no bytes and fractions for nothing."""
    assert amounts.is_plain(said(raw)) is plain


def test_pairs() -> None:
    """Limit and request say the same number, in whatever words; a request alone is refused."""
    key = "a.example/b"
    equal = container(limits={key: "1k"}, requests={key: "1000"})
    found = amounts.given(equal, key)
    assert found
    assert found.in_requests
    assert amounts.given(container(limits={"x": 1}), key) is None
    with pytest.raises(RefusedError, match="has limit 1 and request 2") as caught:
        amounts.given(container(limits={key: "1"}, requests={key: "2"}), key)
    assert caught.value.refusal.code == "RequestDiffersFromLimit"
    with pytest.raises(RefusedError, match=r"resources\.requests.* has request 1 and no limit"):
        amounts.given(container(requests={key: "1"}), key)
    with pytest.raises(RefusedError, match="has limit true and request 1"):
        amounts.given(container(limits={key: True}, requests={key: 1}), key)


def test_malformed() -> None:
    """Resources that are no objects are refused, absent ones are not."""
    pod: dict[str, Any] = {"spec": {"containers": [{"resources": []}]}}
    assert [str(each) for each in amounts.malformed(all_containers(pod)[0])] == [
        "MalformedResources: spec.containers[0].resources: `[]`; must be an object"
    ]
    assert len(list(amounts.malformed(container(limits=3, requests="x")))) == 2
    assert not list(amounts.malformed(container(limits=None)))
