"""One container's words to one vendor, while they are read.

HAMi's scheduler reads the pod again from what stands in it, and sees no request at all in `1.0` or
`16Gi`. So every number that it would not read as it was meant is written anew.
"""

from collections.abc import Mapping
from typing import Any, Final

from gpu.refusal import Refusal, RefusedError
from hami import amounts
from hami.amounts import Given, Memory
from hami.containers import Container, JsonObject
from hami.requests import Edits
from hami.wording import shown
from kube import quantity

COUNT_MAX: Final = 2**31 - 1


class Asking:
    """Reads amounts; collects refusals, warnings and edits."""

    def __init__(self, container: Container, pod: JsonObject) -> None:
        self.container = container
        self.annotations = _mapping(_mapping(pod.get("metadata")).get("annotations"))
        self.reasons: list[Refusal] = []
        self.warnings: list[Refusal] = []
        self._spec = _mapping(pod.get("spec"))
        resources = _mapping(container.raw.get("resources"))
        self._limits = _mapping(resources.get("limits"))
        self._requests = _mapping(resources.get("requests"))
        self._plain: dict[str, int] = {}
        self._new_limits: dict[str, str] = {}
        self._new_requests: dict[str, str] = {}
        self._env: list[tuple[str, str]] = []
        self._pod_annotations: dict[str, str] = {}
        self._runtime_class_name: str | None = None

    def says(self, *names: str) -> bool:
        """Tell whether limits or requests carry any of *names*; an empty name is none."""
        return any(name in self._limits or name in self._requests for name in names if name)

    def count(self, name: str, *parts: str, needed: bool = True) -> int | None:
        """Return how many devices are asked for; `None` for none.

        A refused count is taken for 1, so that the rest is read, and refused, too. *parts* are
        the resources that mean nothing without a count: they are refused then, or warned about
        where the count is not *needed*.
        """
        number = self.amount(name)
        if number is None and self.says(name):
            return 1
        if number:
            return number
        for part in parts:
            if self.says(part):
                limit = f"{part} needs {name}"
                remedy = f"add {name}: 1" if number is None else ""
                report = self.refuse if needed else self.warn
                report("CountMissing", part, limit, remedy=remedy)
        return None

    def amount(
        self, name: str, *, low: int = 0, high: int = COUNT_MAX, in_requests: bool = False
    ) -> int | None:
        """Return the whole number under *name*; `None` when it is absent or refused.

        A request without a limit is refused unless *in_requests* lets it count.
        """
        found = self._given(name, in_requests=in_requests)
        if found is None:
            return None
        try:
            number = amounts.whole(found, at_least=low, at_most=high)
        except RefusedError as error:
            self.reasons.append(error.refusal)
            return None
        self._note(found, number)
        return number

    def memory(self, name: str, factor: int, *, zero: bool = True) -> Memory | None:
        """Return the size under *name*, in units of *factor* MiB; `None` when absent or refused.

        HAMi takes 0 for no size at all; without *zero* it is refused.
        """
        found = self._given(name)
        if found is None:
            return None
        try:
            size = amounts.memory(found, factor=factor)
        except RefusedError as error:
            self.reasons.append(error.refusal)
            return None
        if size.warning:
            self.warnings.append(size.warning)
        if size.units == 0:
            report = self.warn if zero else self.refuse
            limit = f"{name} of 0 asks for the whole device" if zero else f"{name} must not be 0"
            report("MemoryIsZero", name, limit, remedy="leave it out for the whole device")
            return None
        self._note(found, size.units)
        return size

    def given(self, name: str) -> Given | None:
        """Return what is written under *name*; `None` when it is absent or refused."""
        return self._given(name)

    def refuse(self, code: str, name: str, limit: str, *, remedy: str = "") -> None:
        """Refuse the pod for what stands under resource *name*."""
        self.reasons.append(self._about(code, name, limit, remedy))

    def warn(self, code: str, name: str, limit: str, *, remedy: str = "") -> None:
        """Say something about what stands under resource *name*."""
        self.warnings.append(self._about(code, name, limit, remedy))

    def refuse_annotation(self, code: str, key: str, limit: str) -> None:
        """Refuse the pod for what its annotation *key* says."""
        field = f"metadata.annotations[{key}]"
        value = shown(self.annotations.get(key))
        self.reasons.append(Refusal(code=code, field=field, value=value, limit=limit))

    def set(self, name: str, number: int, *, request: bool = False) -> None:
        """Make *number* the limit of *name*, and the request where one stands or *request* asks.

        The API server filled in the request from the limit before, and will compare the two.
        """
        if not name:
            return
        text = quantity.whole(number).canonical()
        same = self._plain.get(name) == number
        if not (same and name in self._limits):
            self._new_limits[name] = text
        wanted = request or name in self._requests
        if wanted and not (same and name in self._requests):
            self._new_requests[name] = text

    def append_env(self, name: str, value: str) -> None:
        """Append a variable."""
        self._env.append((name, value))

    def sets_env(self, name: str) -> bool:
        """Tell whether the container itself sets variable *name*."""
        env = self.container.raw.get("env")
        return any(
            isinstance(each, dict) and each.get("name") == name
            for each in (env if isinstance(env, list) else ())
        )

    def annotate(self, key: str, value: str) -> None:
        """Write an annotation of the pod."""
        if self.annotations.get(key) != value:
            self._pod_annotations[key] = value

    def run_in(self, runtime_class_name: str) -> None:
        """Give a pod that names no runtime class this one."""
        if runtime_class_name and self._spec.get("runtimeClassName") is None:
            self._runtime_class_name = runtime_class_name

    def edits(self) -> Edits:
        """Return what is to be written."""
        return Edits(
            limits=self._new_limits,
            requests=self._new_requests,
            env=tuple(self._env),
            pod_annotations=self._pod_annotations,
            runtime_class_name=self._runtime_class_name,
        )

    def _given(self, name: str, *, in_requests: bool = False) -> Given | None:
        if not self.says(name):
            return None
        if in_requests and name not in self._limits:
            raw = self._requests[name]
            return Given(container=self.container, resource=name, raw=raw, in_requests=True)
        try:
            return amounts.given(self.container, name)
        except RefusedError as error:
            self.reasons.append(error.refusal)
            return None

    def _note(self, found: Given, number: int) -> None:
        if amounts.is_plain(found):
            self._plain[found.resource] = number
        else:
            self.set(found.resource, number)

    def _about(self, code: str, name: str, limit: str, remedy: str) -> Refusal:
        section = "limits" if name in self._limits else "requests"
        return Refusal(
            code=code,
            field=amounts.field_of(self.container, name, section=section),
            value=shown(self._limits.get(name, self._requests.get(name, ""))),
            limit=limit,
            remedy=remedy,
        )


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
