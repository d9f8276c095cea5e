"""Cases of device allocation on disk: objects of Kubernetes, and what came of them.

A file has the objects that an attempt looks at and any of two answers. `expect` is written by hand
and says for which releases it holds and where it comes from; it is what the allocator says of one
node, with reasons. `recorded` is the word of a real scheduler per release, with the version that
gave it (see `tests.cluster.vectors`); `*` stands for any share id.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from kube.objects import ObjectKey
from sim.scheduler.placement import View

Json = dict[str, Any]

FOLDER: Final = Path(__file__).parent / "vectors"
POD: Final = "pod"
HELD: Final = "held"
LOOKS: Final = "looks"


@dataclass(frozen=True, slots=True)
class Vector:
    """One case; *data* is the file's content."""

    data: Json

    @property
    def name(self) -> str:
        """Return the name, which is the file's too."""
        return str(self.data["name"])

    @property
    def path(self) -> Path:
        """Return where the file lies."""
        return FOLDER / f"{self.name}.json"

    @property
    def gates(self) -> dict[str, bool]:
        """Return the feature gates that are not as the release has them by default."""
        return dict(self.data.get("features") or {})

    def is_for(self, release: str) -> bool:
        """Tell whether *release* knows the gates that the case needs."""
        return release in self.data.get("releases", [release])

    @property
    def waits_for_binding(self) -> bool:
        """Tell whether a device has conditions for which a scheduler waits before it binds."""
        return '"bindingConditions"' in json.dumps(self.slices)

    @property
    def nodes(self) -> tuple[Json, ...]:
        """Return all nodes."""
        return tuple(self.data.get("nodes") or [self.data["node"]])

    @property
    def slices(self) -> tuple[Json, ...]:
        """Return the ResourceSlices of all drivers."""
        return tuple(self.data["slices"])

    @property
    def classes(self) -> tuple[Json, ...]:
        """Return the DeviceClasses."""
        return tuple(self.data["classes"])

    @property
    def rules(self) -> tuple[Json, ...]:
        """Return the DeviceTaintRules."""
        return tuple(self.data.get("rules") or ())

    @property
    def claims(self) -> tuple[Json, ...]:
        """Return the claims of the pod in its order; some may be allocated already."""
        return tuple(self.data["claims"])

    @property
    def namespace(self) -> str:
        """Return the namespace of pod and claims."""
        return str(self.claims[0]["metadata"]["namespace"]) if self.claims else "default"

    @property
    def recorded(self) -> Mapping[str, Json]:
        """Return what real schedulers did, by release such as `1.37`."""
        return dict(self.data.get("recorded") or {})

    def pod(self) -> Json:
        """Return the pod that names the claims."""
        names = [claim["metadata"]["name"] for claim in self.claims]
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": POD, "namespace": self.namespace, "uid": POD},
            "spec": {
                "containers": [{"name": "main", "image": "none"}],
                "resourceClaims": [{"name": name, "resourceClaimName": name} for name in names],
                **(self.data.get("pod") or {}),
            },
        }

    def held(self) -> tuple[Json, ...]:
        """Return the claim of somebody else that holds what is taken, if anything is.

        `state` says what: `dedicated`, `shared` and `used` as the allocator counts them, and
        `admin` for devices that the claim has for admin access alone.
        """
        results = list(_held_results(self.data["state"]))
        if not results:
            return ()
        exactly = {"deviceClassName": HELD}
        requests = [
            {"name": HELD, "exactly": exactly},
            {"name": LOOKS, "exactly": {**exactly, "adminAccess": True}},
        ]
        return (
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceClaim",
                "metadata": {"name": HELD, "namespace": self.namespace},
                "spec": {"devices": {"requests": requests}},
                "status": {"allocation": {"devices": {"results": results}}},
            },
        )

    def view(self) -> View:
        """Return the cluster that a scheduler sees."""
        claims = (*self.claims, *self.held())
        return View(
            nodes=self.nodes,
            pods={},
            claims={
                ObjectKey(self.namespace, claim["metadata"]["name"]): claim for claim in claims
            },
            slices=self.slices,
            classes={item["metadata"]["name"]: item for item in self.classes},
            rules=self.rules,
        )


def read(path: Path) -> Vector:
    """Read one file."""
    return Vector(json.loads(path.read_text()))


def read_all(names: Sequence[str] = ()) -> tuple[Vector, ...]:
    """Read all files, or those of *names*."""
    paths = [FOLDER / f"{name}.json" for name in names] or sorted(FOLDER.glob("*.json"))
    return tuple(read(path) for path in paths)


def with_stars(allocations: Sequence[Json]) -> list[Json]:
    """Return copies with `*` for each share id; AssertionError if two of them are the same."""
    copies: list[Json] = json.loads(json.dumps(allocations))
    results = [it for made in copies for it in made["devices"].get("results") or ()]
    shares = [result for result in results if "shareID" in result]
    assert len({UUID(result["shareID"]) for result in shares}) == len(shares)
    for result in shares:
        result["shareID"] = "*"
    return copies


def _held_results(state: Json) -> Iterator[Json]:
    for item in state.get("admin") or ():
        yield {"request": LOOKS, "adminAccess": True, **item}
    for item in state.get("dedicated") or ():
        yield {"request": HELD, **item}
    amounts = {_device(item): item["capacity"] for item in state.get("used") or ()}
    for item in state.get("shared") or ():
        used = amounts.pop(_device(item), None)
        yield {"request": HELD, **item} | ({"consumedCapacity": used} if used else {})
    assert not amounts, f"used without a share: {amounts}"


def _device(item: Json) -> tuple[str, str, str]:
    return item["driver"], item["pool"], item["device"]
