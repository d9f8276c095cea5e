"""Questions of the API server, up to what becomes of their object.

Pods are held against their own words, computed again; claims, templates and changes of metadata
against what the documents say that nobody may.
"""

import json
from base64 import b64decode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, Final

import jsonpatch

from gpu.refusal import Refusal
from hami.deviceconfig import NvidiaConfig
from tests.fuzz import guarded
from tests.fuzz.asked import KEYS, amounts, containers
from tests.fuzz.claimed import asking, expect_claims
from tests.fuzz.mutation import as_text, at, paths, replaced, spoiled, spoiled_text
from tests.fuzz.review_seeds import AMOUNTS, SEEDS
from tests.fuzz.running import ViolationError, expect
from tests.fuzz.world import SCHEDULER, Decider
from tests.hami.booking_model import booked
from webhook import warningtexts
from webhook.review import Review, ReviewError, Verdict, read, write
from webhook.templatecontent import expected_templates

_MIRROR: Final = "kubernetes.io/config.mirror"
_TOUCHED: Final = (
    *("/metadata/annotations", "/metadata/labels", "/spec/schedulerName", "/spec/resourceClaims"),
    *("/spec/runtimeClassName", "/spec/containers/", "/spec/initContainers/"),
)

Make = Callable[[bool], Decider]


def make_decider(claims_serve: bool) -> Decider:  # noqa: FBT001 - the one question
    """Return what decides."""
    return Decider(claims_serve=claims_serve)


@dataclass(slots=True)
class Reviews:
    """Bodies near those that the API server sends."""

    decider: Make = field(default=make_decider)
    name: str = "admission-reviews"
    weight: int = 10
    _deciders: dict[bool, Decider] = field(default_factory=dict)

    def make(self, rng: Random) -> dict[str, Any]:
        """Return a body, and whether claims serve."""
        review, donor = rng.choice(SEEDS), rng.choice(SEEDS)
        if rng.random() < 0.6:
            review = _with_amounts(rng, review)
        if rng.random() < 0.5:
            body = as_text(rng, spoiled(rng, review, donor=donor))
        else:
            body = spoiled_text(rng, review, donor=donor)
        return {"claims": rng.random() < 0.6, "body": body}

    def check(self, sample: dict[str, Any]) -> bool:
        """Ask both paths; nothing that was not refused may mean less or more than it says."""
        try:
            review = read(sample.get("body", b""))
        except ReviewError as error:
            expect(len(str(error)) < 600, "an endless message")
            return False
        claims_serve = bool(sample.get("claims"))
        decider = self._decider(claims_serve=claims_serve)
        verdicts = decider.mutate(review), decider.validate(review)
        unchanged = read(sample["body"])
        expect(_same(review.item, unchanged.item), "the object was changed in place")
        for verdict in verdicts:
            _expect_answer(review, verdict)
        guarded.expect_guarded(review, *verdicts)
        changed, judged = verdicts
        if changed.allowed and _is_new_pod(review):
            new = _patched(unchanged.item, changed)
            if new is not None:
                _expect_pod(review, new, changed, decider, claims_serve=claims_serve)
        return changed.allowed and judged.allowed

    def close(self) -> None:
        """End what decides."""
        for each in self._deciders.values():
            each.close()
        self._deciders.clear()

    def _decider(self, *, claims_serve: bool) -> Decider:
        if claims_serve not in self._deciders:
            self._deciders[claims_serve] = self.decider(claims_serve)
        return self._deciders[claims_serve]


def _with_amounts(rng: Random, review: Any) -> Any:
    """Return *review* with other amounts, or with amounts where there were none."""
    ends = {"limits", "requests"}
    maps = [p for p in paths(review) if p and p[-1] in ends and isinstance(at(review, p), dict)]
    for path in rng.sample(maps, min(len(maps), rng.randint(1, 2))):
        key = rng.choice((*KEYS, *at(review, path)))
        review = replaced(review, (*path, key), rng.choice(AMOUNTS))
    return review


def _is_new_pod(review: Review) -> bool:
    asked = review.group, review.resource, review.subresource, review.operation
    return asked == ("", "pods", "", "CREATE")


def _expect_answer(review: Review, verdict: Verdict) -> None:
    answer = _strictly(write(review, verdict))["response"]
    expect(answer["uid"] == review.uid, "an answer to another question")
    if "patch" in answer:
        expect(_strictly(b64decode(answer["patch"])) == [*verdict.patch], "another patch")
    expect(verdict.allowed or verdict.message, "a refusal without a reason")
    expect(verdict.code in {200, 403}, f"a failure of our own: {verdict.code}")
    cut = warningtexts.cut(verdict.warnings)
    expect(sum(map(len, cut)) <= warningtexts.ALL_MAX, "endless warnings")
    for operation in verdict.patch:
        path = operation["path"]
        is_made = path == "/metadata" and not operation["value"]
        expect(is_made or path.startswith(_TOUCHED), f"a field was touched: {path}")
        for part in ("/spec/containers/", "/spec/initContainers/"):
            if path.startswith(part):
                kind = path.removeprefix(part).split("/")[1]
                expect(kind in {"resources", "env"}, f"a field was touched: {path}")


def _strictly(text: bytes) -> Any:
    """Return what *text* says to a reader that takes no NaN."""

    def no_json(word: str) -> Any:
        message = f"what was answered is no JSON: {word}"
        raise ViolationError(message)

    return json.loads(text, parse_constant=no_json)


def _same(one: Any, other: Any) -> bool:
    """Tell whether both are the same JSON: a NaN is itself there."""
    return one == other or json.dumps(one) == json.dumps(other)


def _patched(item: Any, verdict: Verdict) -> Any:
    """Return *item*, which is changed, after the patch; `None` where the API server refuses it."""
    try:
        return jsonpatch.apply_patch(item, list(verdict.patch), in_place=True)
    except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException):
        return None


def _expect_pod(
    review: Review, new: Any, verdict: Verdict, decider: Decider, *, claims_serve: bool
) -> None:
    old: Any = review.item or {}
    if _is_mirror(old):
        expect(not verdict.patch, "a mirror was changed")
    elif claims_serve:
        _expect_claimed(old, new)
    elif verdict.patch and new["spec"].get("schedulerName") == SCHEDULER:
        _expect_booked(old, new)
    again = decider.mutate(replace(review, item=new))
    expect(again.allowed, "a pod is refused when it comes again")
    expect(not again.patch, "a pod is changed again when it comes again")


def _expect_claimed(old: Any, new: Any) -> None:
    templates = expected_templates(new)
    expect(not isinstance(templates, Refusal), "a pod that gets none of its templates")
    if isinstance(templates, Mapping):
        before = expected_templates(old)
        known = before if isinstance(before, Mapping) else {}
        made = {name: spec for name, spec in templates.items() if name not in known}
        expect_claims(old, new, made if known else templates)


def _expect_booked(old: Any, new: Any) -> None:
    asked = asking(old)
    for section, index, container in containers(new):
        limits, requests = amounts(container, "limits"), amounts(container, "requests")
        found = booked(limits, requests, NvidiaConfig())
        wants = asked.get((section, index))
        wanted = wants and (wants.count, wants.memory_mib or 0, wants.percent or 0, wants.cores)
        expect(found == wanted, f"another amount: {found} and not {wanted}")


def _is_mirror(pod: Any) -> bool:
    metadata = pod.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    return isinstance(annotations, dict) and _MIRROR in annotations
