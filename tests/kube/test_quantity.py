"""Quantities: the grammar, exact numbers, and the text that the API server keeps."""

from decimal import ROUND_CEILING, Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube.quantity import Format, Quantity, QuantityError, parse, whole

NANO = 10**9
MAX = 2**63 - 1

quantities = st.builds(
    Quantity, st.integers(-MAX * NANO, MAX * NANO), st.sampled_from(list(Format))
)


@pytest.mark.parametrize(
    ("text", "number", "canonical"),
    [
        ("0", "0", "0"),
        ("-0", "0", "0"),
        ("4000", "4000", "4k"),
        ("5000000", "5000000", "5M"),
        ("3072", "3072", "3072"),
        ("007", "7", "7"),
        ("0.5", "0.5", "500m"),
        (".5", "0.5", "500m"),
        ("1.", "1", "1"),
        ("1.5G", "1500000000", "1500M"),
        ("+5k", "5000", "5k"),
        ("-5k", "-5000", "-5k"),
        ("100m", "0.1", "100m"),
        ("2e3", "2000", "2e3"),
        ("2E3", "2000", "2e3"),
        ("2e+3", "2000", "2e3"),
        ("12e2", "1200", "1200"),
        ("15e-4", "0.0015", "1500e-6"),
        ("1E", "1000000000000000000", "1E"),
        ("1Ki", "1024", "1Ki"),
        ("1536Mi", "1610612736", "1536Mi"),
        ("1.5Gi", "1610612736", "1536Mi"),
        ("2048Mi", "2147483648", "2Gi"),
        ("100Ki", "102400", "100Ki"),
        ("0.5Ki", "512", "512"),
        ("-1.5Gi", "-1610612736", "-1536Mi"),
        ("1.0005Ki", "1024.512", "1024512m"),
        ("1n", "0.000000001", "1n"),
        ("0.1n", "0.000000001", "1n"),
        ("-0.1n", "-0.000000001", "-1n"),
        (str(MAX), str(MAX), str(MAX)),
    ],
)
def test_a_quantity_is_exact_and_becomes_canonical(text: str, number: str, canonical: str) -> None:
    """The number is that of the text, and the text comes out as the server would keep it."""
    quantity = parse(text)
    assert Decimal(quantity.nanos) / NANO == Decimal(number)
    assert quantity.canonical() == str(quantity) == canonical


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        " 1",
        "1 ",
        "1\n",
        "1 Gi",
        "1K",
        "1k i",
        "1ki",
        "1KI",
        "1gi",
        "1Mib",
        "1MB",
        "1mi",
        "NaN",
        "Infinity",
        "inf",
        "1_000",
        "1,000",
        "0x10",
        "+-1",
        "--1",
        "+",
        "-",
        ".",
        "1..2",
        "1.2.3",
        "1e",
        "1e1.5",
        "1e+-3",
        "1e3Ki",
        "1Ee3",
        "١٢",
        "\uff11\uff12",
        "1²",
        "1\u00a0Gi",
        "30%",
        "true",
        "9" * 65,
        "9223372036854775808",
        "-9223372036854775808",
        "8Ei",
        "1e400",
        "1e99999999999999999999",
    ],
)
def test_what_is_no_quantity_is_refused(text: str) -> None:
    """The error names the text and says why."""
    with pytest.raises(QuantityError) as caught:
        parse(text)
    assert caught.value.text == text
    assert text[:64] in str(caught.value)
    assert caught.value.why


@pytest.mark.parametrize(
    ("text", "value", "is_whole"),
    [
        ("1", 1, True),
        ("1.5", 2, False),
        ("1m", 1, False),
        ("-1.5", -2, False),
        ("3Mi", 3 << 20, True),
    ],
)
def test_the_value_is_rounded_away_from_zero(text: str, value: int, *, is_whole: bool) -> None:
    """Whoever asks for a part gets the whole, as in Go."""
    assert parse(text).value() == value
    assert parse(text).is_whole() is is_whole


def test_a_hint_is_given_for_the_common_mistake() -> None:
    """A capital K is no suffix."""
    with pytest.raises(QuantityError, match="small `k`"):
        parse("16K")


def test_quantities_compare_by_number() -> None:
    """Formats do not matter to equality, order and hashes."""
    assert parse("1Ki") == parse("1024") == parse("1.024k")
    assert hash(parse("1Ki")) == hash(parse("1024"))
    assert parse("1k") < parse("1Ki") <= parse("1025")
    assert max(parse("1G"), parse("1Gi")).canonical() == "1Gi"


def test_sums_keep_the_format_of_the_first_that_is_not_zero() -> None:
    """Adding to nothing takes over the other's format."""
    assert (parse("1Gi") + parse("1024")).canonical() == "1048577Ki"
    assert (parse("0") + parse("1Mi")).canonical() == "1Mi"
    assert (parse("1Gi") - parse("512Mi")).canonical() == "512Mi"
    assert (parse("512Mi") * 4).canonical() == "2Gi"
    assert (-parse("1Mi")).canonical() == "-1Mi"


def test_whole_numbers_become_quantities() -> None:
    """In decimal or in powers of 1024."""
    assert whole(3000).canonical() == "3k"
    assert whole(3 << 30, binary=True).canonical() == "3Gi"


@given(quantities)
def test_the_canonical_text_says_the_same_number(quantity: Quantity) -> None:
    """Reading it back gives the number, and the same text again."""
    text = quantity.canonical()
    again = parse(text)
    assert again == quantity
    assert again.canonical() == text


@given(st.text(max_size=80))
def test_any_text_is_a_quantity_or_refused(text: str) -> None:
    """Nothing else can come out, and what is accepted is ASCII without blanks."""
    try:
        quantity = parse(text)
    except QuantityError:
        return
    assert text.isascii()
    assert text == text.strip()
    assert abs(quantity.nanos) <= MAX * NANO


@given(
    st.integers(0, 10**9),
    st.integers(0, 9),
    st.sampled_from(["", "n", "u", "m", "k", "M", "Ki", "Mi", "e2", "e-2", "E1"]),
)
def test_the_number_agrees_with_decimal_arithmetic(digits: int, places: int, suffix: str) -> None:
    """A second way of computing it finds the same, rounded up to a billionth."""
    factor = {
        "": Decimal(1),
        "n": Decimal("1e-9"),
        "u": Decimal("1e-6"),
        "m": Decimal("1e-3"),
        "k": Decimal(10**3),
        "M": Decimal(10**6),
        "Ki": Decimal(2**10),
        "Mi": Decimal(2**20),
        "e2": Decimal(100),
        "e-2": Decimal("0.01"),
        "E1": Decimal(10),
    }[suffix]
    number = Decimal(digits).scaleb(-places)
    exact = number * factor * NANO
    assert parse(f"{number:f}{suffix}").nanos == exact.to_integral_value(ROUND_CEILING)


@given(quantities, quantities, st.integers(-1000, 1000))
def test_arithmetic_is_that_of_the_numbers(a: Quantity, b: Quantity, factor: int) -> None:
    """Sums, differences and products are exact."""
    assert (a + b).nanos == a.nanos + b.nanos
    assert (a - b) + b == a
    assert (a * factor).nanos == a.nanos * factor
    assert (a < b) == (a.nanos < b.nanos)
