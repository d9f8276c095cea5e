"""Every key of HAMi's protocol in both modes, as `docs/legacy-requests.md` tells it."""

from dataclasses import replace
from typing import Any

import kubernetes_validate
import pytest

from sim.scheduler.cel import fault_of
from tests.webhook.admitting import TWO_A10, Decided, KnownCluster, decide
from tests.webhook.containing import missing
from tests.webhook.legacy_document import PATH, document
from tests.webhook.legacy_row import Outcome, Row
from tests.webhook.legacy_table import ROWS, keys_without_row, required_keys
from tests.webhook.translating import expressions

MODES = {"claims": True, "hami": False}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_row(row: Row, mode: str) -> None:
    """A pod with the key becomes what the table says, in a cluster with claims and without."""
    view = KnownCluster(gpus=TWO_A10, labels=row.namespace_labels)
    decided = decide(row.pod, row.config, claims_serve=MODES[mode], view=view)
    outcome = row.dra if MODES[mode] else row.hami
    _check(decided, outcome)
    _check_valid(decided)
    if row.inert:
        plain = replace(row, sections={})
        assert decided == decide(plain.pod, plain.config, claims_serve=MODES[mode])


def _check(decided: Decided, outcome: Outcome) -> None:
    if outcome.refused:
        assert outcome.refused in decided.refused, decided
        return
    assert not decided.refused
    if outcome.warned:
        assert any(each.startswith(f"{outcome.warned}: ") for each in decided.warned), decided
    if outcome.pod is not None:
        assert list(missing(outcome.pod, decided.pod)) == []
    if outcome.claim is not None:
        (claim,) = decided.claims
        assert list(missing(outcome.claim, claim)) == []


def _check_valid(decided: Decided) -> None:
    for spec in decided.claims:
        meta = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim"}
        claim: Any = {**meta, "metadata": {"name": "claim"}, "spec": spec}
        kubernetes_validate.validate(claim, "1.37", strict=True)
        assert [fault_of(each) for each in expressions(spec)].count(None) == len(expressions(spec))
    kubernetes_validate.validate(decided.pod, "1.37", strict=True)


def test_every_key_has_a_row() -> None:
    """No key that the code knows is left out of the table."""
    assert keys_without_row() == set()
    assert len(set(required_keys())) > 100


def test_every_row_says_something_in_both_modes() -> None:
    """Rows have names of their own and words for people, and look at something."""
    names = [row.name for row in ROWS]
    assert len(set(names)) == len(names)
    for row in ROWS:
        assert row.keys
        for outcome in (row.dra, row.hami):
            assert outcome.says
            looks = (outcome.claim, outcome.pod, outcome.refused or None, outcome.warned or None)
            assert row.inert or any(each is not None for each in looks), row.name


def test_document_is_that_of_the_table() -> None:
    """The document was written anew after the table has changed."""
    assert PATH.read_text() == document(), "run `python -m tests.webhook.legacy_document`"


def test_a_row_that_is_wrong_is_noticed() -> None:
    """What is wanted and not there, or there and not wanted, is found in objects and lists."""
    found = {"a": {"b": 1}, "c": [{"d": 1, "e": 2}, {"d": 3}]}
    assert list(missing({"a": {"b": 1, "x": ...}, "c": [{"d": 3}, {"e": 2}]}, found)) == []
    assert list(missing({"a": {"b": 2}}, found)) == [".a.b is 1 and not 2"]
    assert list(missing({"a": {"b": ...}}, found)) == [".a.b is there: 1"]
    assert list(missing({"x": 1}, found)) == [".x is missing"]
    assert len(list(missing({"c": [{"d": 1, "e": 3}]}, found))) == 1
    assert list(missing({"a": {"b": lambda value: value > 1}}, found)) != []
