"""Findings as a table, and without secrets."""

from hypothesis import given
from hypothesis import strategies as st

from cli.doctor.model import Finding, Half, Status, Verdict, failed, ok, unknown
from cli.doctor.text import WIDTH, lines_of
from cli.doctor.veiling import veil, veiled

texts = st.text(max_size=300)


@given(
    st.lists(
        st.builds(
            Finding,
            id=st.sampled_from(["mode", "a-rather-long-name-of-a-check"]),
            half=st.sampled_from(Half),
            about=st.sampled_from(["", "node-with-a-long-name.example.com"]),
            verdict=st.builds(
                Verdict,
                status=st.sampled_from(Status),
                seen=texts,
                remedy=texts,
                details=st.lists(texts, max_size=8).map(tuple),
            ),
        )
    )
)
def test_no_line_is_too_wide(findings: list[Finding]) -> None:
    """Whatever is said, the table has 100 columns and no control characters."""
    for line in lines_of(findings):
        assert len(line.text) <= WIDTH
        assert not any(ord(sign) < 32 or 127 <= ord(sign) < 160 for sign in line.text)


def test_equal_answers_share_a_row() -> None:
    """A server that is away is told once, with the names of all checks that it leaves open."""
    verdict = unknown("no route to host")
    findings = [Finding(id=name, half=Half.CLUSTER, verdict=verdict) for name in "abcd"]
    said = [line.text for line in lines_of(findings)]
    assert said[1].split() == ["4", "checks", "unknown", "no", "route", "to", "host"]
    assert said[2].strip() == "a, b, c, d"
    assert said[-1] == "4 checks: 4 unknown"


def test_each_row_has_status_reason_and_remedy() -> None:
    """A row says what was seen, the details and what to do; a preflight is named by its node."""
    findings = [
        Finding(id="mode", half=Half.CLUSTER, verdict=ok("well")),
        Finding(
            id="preflight",
            half=Half.PREFLIGHT,
            about="node-a",
            verdict=failed("bad", "mend it", *(f"d{number}" for number in range(7))),
        ),
    ]
    said = [line.text.rstrip() for line in lines_of(findings)]
    assert said[:2] == ["cluster", "mode                 ok       well"]
    assert said[3:5] == ["preflight", "node-a               failed   bad"]
    assert [text.strip() for text in said[5:12]] == [
        *(f"- d{number}" for number in range(5)),
        "- and 2 more",
        "=> mend it",
    ]
    assert said[-1] == "2 checks: 1 ok, 1 failed"


def test_secrets_are_hidden() -> None:
    """Tokens, keys and passwords in what others have written do not come out."""
    key = "-----BEGIN EC PRIVATE KEY-----\nMHcCAQEE\n-----END EC PRIVATE KEY-----"
    word = "eyJhbGciOi.eyJzdWIi.c2ln"
    assert veil(f"a {key} b") == "a (hidden) b"
    assert veil(f"Bearer abc and {word}.") == "Bearer (hidden) and (hidden)."
    assert veil("https://me:pass@host/x") == "https://(hidden)@host/x"
    finding = Finding(id="x", half=Half.NODE, verdict=failed(word, word, word))
    assert word not in repr(veiled(finding))


def test_long_answers_are_cut() -> None:
    """One verbose server leaves room for the others."""
    finding = Finding(id="x", half=Half.NODE, verdict=ok("word \n" * 1000))
    assert len(veiled(finding).verdict.seen) == 500
