"""The input files through real TLS and real AdmissionReviews: the answer is what was decided."""

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from tests.hami.inputfiles import InputCase, input_cases
from tests.webhook.admitting import KnownCluster, decide
from tests.webhook.serving import Served, served
from tests.webhook.test_inputs import NODE_C
from webhook.leaderforward import body_of
from webhook.podadmission import PodAdmission
from webhook.review import Review, Verdict
from webhook.server import MUTATE_PATH

CASES = {f"{each.file}: {each.title}": each for each in input_cases()}


@dataclass(slots=True)
class Wire:
    """Takes questions to a decision over the wire; it is another one for each case."""

    served: Served | None = None
    admission: list[PodAdmission] = field(default_factory=list)

    async def mutate(self, review: Review) -> Verdict:
        """Decide by the newest."""
        return await self.admission[-1].decide(review)

    def ask(self, admission: PodAdmission, review: Review) -> Verdict:
        """Return the verdict in the answer to a posted AdmissionReview."""
        assert self.served is not None
        self.admission.append(admission)
        answer = self.served.post(MUTATE_PATH, body_of(review))
        assert answer.status == 200
        said = json.loads(answer.body)
        assert said["apiVersion"] == review.api_version
        response = said["response"]
        assert response["uid"] == review.uid
        patch = json.loads(base64.b64decode(response["patch"])) if "patch" in response else ()
        return Verdict(
            allowed=response["allowed"],
            patch=tuple(patch),
            warnings=tuple(response.get("warnings", ())),
            message=response.get("status", {}).get("message", ""),
        )


@pytest.fixture(scope="module")
def wire() -> Iterator[Wire]:
    """Return a server over TLS."""
    wire = Wire()
    with served(mutate=wire.mutate) as running:
        wire.served = running
        yield wire


@pytest.mark.parametrize("mode", ["claims", "hami"])
@pytest.mark.parametrize("name", CASES)
def test_input_over_tls(wire: Wire, name: str, mode: str) -> None:
    """What a client gets over the wire is what was decided, to the last operation."""
    case: InputCase = CASES[name]
    view = KnownCluster(gpus=NODE_C) if case.file == "in-13" else None
    claims_serve = mode == "claims"
    over_tls = decide(case.pod, case.config, claims_serve=claims_serve, view=view, ask=wire.ask)
    at_hand = decide(case.pod, case.config, claims_serve=claims_serve, view=view)
    assert (over_tls.pod, over_tls.claims, over_tls.refused) == (
        at_hand.pod,
        at_hand.claims,
        at_hand.refused,
    )
    assert [each[:200] for each in over_tls.warned] == [each[:200] for each in at_hand.warned]
