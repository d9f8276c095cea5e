"""From objects that ask in HAMi's words to the same with claims.

What a pod asks for is read and translated by the webhook's own code. Other than there, templates
get names that people can read and pods carry no record of what they asked: they are whoever's
applies them, and no controller looks after them.
"""

from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import count
from typing import Final

import jsonpatch

from cli.convert.telling import Telling
from cli.convert.tidying import drop_emptied, drop_record
from cli.convert.workloads import is_list, keys_in, path_to_pod, pod_in, with_pod
from gpu.refusal import Refusal
from hami import userkeys
from hami.deviceconfig import DeviceConfig
from hami.keys import is_scheduler_owned
from hami.preference_reading import annotations_of
from hami.requests import NVIDIA, Absent, Invalid, Valid
from hami.resources import read
from kube.objects import JsonObject
from webhook import podrules
from webhook.claims import Translation, TranslationSettings, translate
from webhook.claimspec import objects
from webhook.environment import EnvironmentRules, check_environment
from webhook.facts import ClusterFacts

_NAME_MAX: Final = 253
_NO_POD: Final = Refusal(
    code="PodMalformed",
    field="metadata, spec",
    value="",
    limit="there is something else where a pod has objects and lists",
    remedy="let `kubectl apply --dry-run=server` say where",
)
_SHARES: Final = 10
"""As many as an agent publishes of a GPU unless told otherwise; for `mutex`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Converted:
    """What became of one object; *warnings* are texts for people."""

    item: JsonObject
    templates: tuple[JsonObject, ...] = ()
    warnings: tuple[str, ...] = ()
    refusals: tuple[str, ...] = ()
    """Why it cannot be converted; *item* is then as it was."""


@dataclass(slots=True)
class Converter:
    """Converts the objects of one run; names of templates are told apart over all of them."""

    config: DeviceConfig
    sizes_mib: tuple[int, ...] = ()
    _taken: dict[tuple[str, str], JsonObject] = field(default_factory=dict)

    def convert(self, item: JsonObject) -> Converted:
        """Return *item* with claims; one of a kind that makes no pods stays as it is."""
        if is_list(item):
            return self._list(item)
        path = path_to_pod(item)
        if path is None:
            return Converted(item=item, warnings=self._unknown(item))
        pod = pod_in(item, path)
        if pod is None:
            return Converted(item=item)
        told = Telling(item, ".".join(path))
        if path:
            told.warn(_misplaced(item, path))
        found = self._pod(pod, item, told)
        return Converted(
            item=with_pod(item, path, found.item),
            templates=found.templates,
            warnings=found.warnings,
            refusals=found.refusals,
        )

    def _list(self, item: JsonObject) -> Converted:
        parts = [
            self.convert(each) if isinstance(each, dict) else Converted(item=each)
            for each in item["items"]
        ]
        # The templates stand in the list, before what names them.
        items = [entry for part in parts for entry in (*part.templates, part.item)]
        return Converted(
            item={**item, "items": items},
            warnings=tuple(text for part in parts for text in part.warnings),
            refusals=tuple(text for part in parts for text in part.refusals),
        )

    def _unknown(self, item: JsonObject) -> tuple[str, ...]:
        found = sorted(set(keys_in(item, self.config.nvidia.keys)))
        told = Telling(item)
        if found:
            told.warn([f"{', '.join(found)}: pods of this kind are not known here; left as it is"])
        return told.warnings

    def _pod(self, pod: JsonObject, owner: JsonObject, told: Telling) -> Converted:
        said = read(pod, self.config)
        told.warn(said.warnings)
        if isinstance(said, Absent):
            return Converted(item=pod, warnings=told.warnings)
        told.refuse(podrules.with_devices(pod))
        readable = Valid(requests=said.requests, preferences=said.preferences)
        environment = check_environment(pod, readable, EnvironmentRules())
        told.refuse(environment.reasons)
        told.warn(environment.warnings)
        made = said if isinstance(said, Invalid) else self._translated(pod, said)
        told.warn(made.warnings)
        if isinstance(said, Invalid) or isinstance(made, Invalid) or told.refusals:
            told.refuse(made.reasons if isinstance(made, Invalid) else ())
            return Converted(item=pod, warnings=told.warnings, refusals=told.refusals)
        try:
            new: JsonObject = jsonpatch.apply_patch(deepcopy(pod), list(made.patch))
        except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException):
            told.refuse([_NO_POD])
            return Converted(item=pod, warnings=told.warnings, refusals=told.refusals)
        drop_record(new, pod)
        drop_emptied(new, pod)
        templates = self._named(new, made.templates, owner)
        told.warn(_left(new, said, with_claims=bool(templates)))
        return Converted(item=new, templates=templates, warnings=told.warnings)

    def _translated(self, pod: JsonObject, said: Valid) -> Translation | Invalid:
        settings = TranslationSettings(
            keys=self.config.nvidia.keys,
            fallback_sizes_mib=self.sizes_mib,
            fallback_shares=(_SHARES,),
        )
        return translate(pod, said, ClusterFacts(), settings)

    def _named(
        self, pod: JsonObject, specs: Mapping[str, JsonObject], owner: JsonObject
    ) -> tuple[JsonObject, ...]:
        """Give the templates of *pod* readable names, in it and in what is returned."""
        made: dict[str, JsonObject] = {}
        for _, entry in objects(pod["spec"], "resourceClaims"):
            hashed = str(entry.get("resourceClaimTemplateName"))
            if hashed not in specs:
                continue
            template = self._template(owner, str(entry["name"]), specs[hashed])
            name = template["metadata"]["name"]
            entry["resourceClaimTemplateName"] = name
            made[name] = template
        return tuple(made.values())

    def _template(self, owner: JsonObject, entry: str, spec: JsonObject) -> JsonObject:
        metadata = owner.get("metadata")
        metadata = metadata if isinstance(metadata, dict) else {}
        namespace = str(metadata.get("namespace") or "")
        base = str(metadata.get("name") or metadata.get("generateName") or "pod").strip("-.")
        tails = (f"-{entry}" if number == 1 else f"-{entry}-{number}" for number in count(1))
        names = (base[: _NAME_MAX - len(tail)].rstrip("-.") + tail for tail in tails)
        name = next(
            each for each in names if self._taken.setdefault((namespace, each), spec) == spec
        )
        return {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaimTemplate",
            "metadata": {"name": name} | ({"namespace": namespace} if namespace else {}),
            "spec": {"spec": spec},
        }


def _misplaced(owner: JsonObject, path: tuple[str, ...]) -> Iterator[str]:
    """Yield which annotations of *owner* are meant for its pods, which do not get them."""
    keys = {*userkeys.OF_NVIDIA, *userkeys.OF_ALL_VENDORS}
    place = ".".join((*path, "metadata"))
    for key in sorted(keys & annotations_of(owner).keys()):
        yield f"annotation {key} is on the {owner.get('kind')}; move it to {place}"


def _left(pod: JsonObject, said: Valid, *, with_claims: bool) -> Iterator[str]:
    """Yield what is still for HAMi's scheduler."""
    words = {device.word for each in said.requests for device in each.devices} - {NVIDIA}
    if words:
        yield f"{', '.join(sorted(words))}: not NVIDIA's, so left to HAMi's scheduler"
    forged = sorted(filter(is_scheduler_owned, annotations_of(pod)))
    if forged:
        yield f"annotations {', '.join(forged)}: only schedulers may write them; take them out"
    scheduler = pod["spec"].get("schedulerName")
    if with_claims and scheduler and scheduler != podrules.DEFAULT_SCHEDULER:
        yield f"spec.schedulerName: {scheduler} stays; any scheduler of Kubernetes serves claims"
