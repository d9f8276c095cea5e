"""Expressions are safe whatever the text, and mean what HAMi's matching means."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hami import matching
from sim.scheduler import cel as engine
from tests.webhook.translating import a_gpu, a_mig_gpu, published, uuid
from webhook import cel

ANY_TEXT = st.text(st.characters(), max_size=40)
MODELS = st.sampled_from(
    ["NVIDIA A10", "NVIDIA A100-SXM4-80GB", "Tesla V100-SXM2-16GB", "A-10", "nvidia mixed", "dia"]
)
WORDS = st.one_of(
    st.sampled_from(
        ["a10", "A100", "nvidia", "NVIDIA-", "nvidia-tesla", "-", "a-", "a-10", "ia-t", "v100", "x"]
    ),
    st.text(st.characters(max_codepoint=127), min_size=1, max_size=6),
)


def _evaluated(expression: str) -> bool:
    (device,) = published(a_gpu(0))
    return engine.matches(expression, device)


@given(text=ANY_TEXT)
@example(text='" || true || "')
@example(text="\\")
@example(text="\x00\x7f\n\r\u2028")
@example(text='\'"""\\u0041')
@example(text="\U0001f600é")
def test_a_literal_reads_back_as_its_text(text: str) -> None:
    """Whatever the text, the engine takes the literal for it and nothing else."""
    written = cel.literal(text)
    assert written.isascii()
    assert written.isprintable()
    replaced = "".join("\ufffd" if "\ud800" <= each < "\ue000" else each for each in text)
    as_bytes = "".join(f"\\x{byte:02x}" for byte in replaced.encode())
    assert _evaluated(f"bytes({written}) == b'{as_bytes}'")
    assert not _evaluated(f"bytes({written}) == b'{as_bytes}x'")


def test_half_of_a_surrogate_pair_is_replaced() -> None:
    """What Go's JSON makes of it stands in the literal, which is a text of one character."""
    assert cel.literal("\ud800") == '"\\ufffd"'
    assert _evaluated(f"{cel.literal(chr(0xD800))}.size() == 1")


@given(model=MODELS, words=st.lists(WORDS, min_size=1, max_size=3))
def test_types_match_as_in_hami(model: str, words: list[str]) -> None:
    """A word is a part of the registered model in either case, for both annotations."""
    (device,) = published(a_gpu(0, name=model))
    expected = any(word.lower() in matching.registered_model(model).lower() for word in words)
    assert engine.matches(cel.type_among(words), device) is expected
    assert engine.matches(cel.type_not_among(words), device) is not expected


def test_a_usual_type_is_a_short_expression() -> None:
    """Users read the selector of their claim."""
    assert cel.type_among(["A100"]) == (
        'device.attributes["gpuslice.io"].productName.lowerAscii().contains("a100")'
    )


def test_uuids_are_listed() -> None:
    """A listed GPU matches, and the opposite test is the opposite."""
    first, second = published(a_gpu(0), a_gpu(1))
    listed = cel.uuid_among([uuid(0), uuid(7)])
    assert listed == f'device.attributes["gpuslice.io"].uuid in ["{uuid(0)}", "{uuid(7)}"]'
    assert [engine.matches(listed, each) for each in (first, second)] == [True, False]
    unlisted = cel.uuid_not_among([uuid(0)])
    assert [engine.matches(unlisted, each) for each in (first, second)] == [False, True]


def test_a_mig_device_is_also_known_by_its_gpu() -> None:
    """HAMi names the GPU of a MIG device, and so may the list."""
    (part, other) = published(a_mig_gpu(0, 9856), a_mig_gpu(1, 9856))
    assert engine.matches(cel.uuid_among([uuid(0)], or_parent=True), part)
    assert not engine.matches(cel.uuid_among([uuid(0)], or_parent=True), other)
    assert not engine.matches(cel.uuid_not_among([uuid(0)], or_parent=True), part)
    assert not engine.matches(cel.uuid_among([uuid(0)]), part)


@pytest.mark.parametrize(
    "bad", ["", "GPU-", 'GPU-1"] || true', "gpu-1", "GPU-1\n", "GPU-é", "GPU-" + "a" * 65, "0"]
)
def test_another_text_is_no_uuid(bad: str) -> None:
    """What has not the form of a UUID is never part of an expression."""
    assert not cel.is_uuid(bad)
    with pytest.raises(cel.ExpressionError, match="does not match"):
        cel.uuid_among([bad])


@pytest.mark.parametrize("words", [[], [""], ["x" * 11_000]])
def test_an_expression_that_means_nothing_or_is_too_long_is_refused(words: list[str]) -> None:
    """The API server would refuse it later, or it would match everything."""
    with pytest.raises(cel.ExpressionError):
        cel.type_among(words)


def test_sizes_are_exact() -> None:
    """A total is met to the MiB, by GPUs and MIG devices."""
    (gpu, part) = published(a_gpu(0, 23028), a_mig_gpu(1, 9856))
    assert engine.matches(cel.total_memory_is(23028), gpu)
    assert not engine.matches(cel.total_memory_is(23029), gpu)
    assert engine.matches(cel.total_memory_is(9856), part)
    assert engine.matches(cel.total_memory_at_least(9856), part)
    assert not engine.matches(cel.total_memory_at_least(9857), part)


def test_the_number_of_shares_is_met() -> None:
    """A GPU is known by how many shares it offers."""
    (gpu,) = published(a_gpu(0), shares=7)
    assert engine.matches(cel.shares_are(7), gpu)
    assert not engine.matches(cel.shares_are(10), gpu)


def test_a_fill_level_that_is_not_published_is_no_error() -> None:
    """Such a GPU meets no wish, and the scheduling of the pod goes on."""
    known, unknown = published(a_gpu(0), a_gpu(1), fill_levels={0: 2})
    assert engine.matches(cel.filled_at_least(2), known)
    assert not engine.matches(cel.filled_at_least(3), known)
    assert engine.matches(cel.filled_below(3), known)
    assert not engine.matches(cel.filled_below(2), known)
    assert not engine.matches(cel.filled_at_least(0), unknown)
    assert not engine.matches(cel.filled_below(3), unknown)
