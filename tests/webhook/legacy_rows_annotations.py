"""Rows for the annotations with which a pod chooses NVIDIA GPUs."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from hami import userkeys
from tests.webhook.legacy_row import Outcome, Row, either, exactly, with_limits
from tests.webhook.legacy_rows_nvidia import CORES, GPU, MEMORY, PERCENT

_A: Final = "GPU-00000000-0000-4000-8000-000000000001"
_SHARE: Final[Mapping[str, str]] = {GPU: "1", MEMORY: "3k"}
_TWO: Final[Mapping[str, str]] = {GPU: "2", MEMORY: "3k"}


def _kept(key: str, value: str) -> Outcome:
    """Return that HAMi's scheduler reads an annotation itself."""
    pod = with_limits({}, annotations={key: value})
    return Outcome(says="stays, for HAMi's scheduler", pod=pod)


def _selecting(*parts: str) -> Any:
    """Return a claim whose request has a selector with all *parts*."""
    return exactly(selectors=[{"cel": {"expression": _with(*parts)}}])


def _with(*parts: str) -> Callable[[Any], bool]:
    return lambda text: all(part in text for part in parts)


def _row(key: str, value: str, dra: Outcome, name: str = "", **fields: Any) -> Row:
    """Return the row of an annotation of a pod that asks for a share."""
    return Row(
        name=name or key.partition("/")[2],
        keys=(key,),
        given=f"`{key}: {value}`",
        limits=fields.pop("limits", _SHARE),
        annotations={key: value},
        dra=dra,
        hami=_kept(key, value),
        **fields,
    )


def annotation_rows() -> Iterator[Row]:
    """Yield the rows of all annotations that NVIDIA's GPUs are chosen by."""
    yield from _device_rows()
    yield from _closeness_rows()
    yield from _policy_rows()


def _device_rows() -> Iterator[Row]:
    lower = ".lowerAscii()"
    yield _row(
        userkeys.USE_TYPE,
        "A10,H100",
        Outcome(
            says="selector: the model contains one of the words, whatever their case; a warning"
            " where `A10` also means `A100`",
            claim=_selecting(lower, '"a10"', '"h100"'),
        ),
    )
    yield _row(
        userkeys.NOUSE_TYPE,
        "T4",
        Outcome(says="selector: the model contains none of them", claim=_selecting(lower, '"t4"')),
    )
    yield _row(
        userkeys.USE_UUID,
        _A,
        Outcome(says="selector: the UUID is one of them", claim=_selecting("uuid", _A)),
    )
    yield _row(
        userkeys.NOUSE_UUID,
        _A,
        Outcome(says="selector: the UUID is none of them", claim=_selecting("uuid", _A)),
    )
    yield Row(
        name="a UUID that is none",
        keys=(userkeys.USE_UUID, userkeys.NOUSE_UUID),
        given=f'`{userkeys.USE_UUID}: x"||true`',
        limits=_SHARE,
        annotations={userkeys.USE_UUID: 'x"||true'},
        dra=Outcome(says="refused", refused="UuidInvalid"),
        hami=Outcome(says="refused", refused="UuidInvalid"),
    )
    yield _row(
        userkeys.VGPU_MODE,
        "mig",
        Outcome(
            says="class `mig.gpuslice.io`: a partition that is large enough; `hami-core,mig`"
            " takes either; without the annotation only shares of GPUs",
            claim={"devices": {"requests": [_MIG_REQUEST]}},
        ),
    )


def _is_mig(request: Any) -> bool:
    bodies = request.get("firstAvailable") or [request["exactly"]]
    return all(each["deviceClassName"] == "mig.gpuslice.io" for each in bodies)


_MIG_REQUEST: Final = _is_mig


def _closeness_rows() -> Iterator[Row]:
    same_node = {"matchAttribute": "resource.kubernetes.io/numaNode"}
    yield _row(
        userkeys.NUMA_BIND,
        "true",
        Outcome(
            says="constraint: all of the container's GPUs are on one NUMA node",
            claim={"devices": {"constraints": [same_node]}},
        ),
        limits=_TWO,
    )
    yield _row(
        userkeys.NUMA_ALIGNMENT,
        "strict",
        Outcome(says="as `numa-bind`", claim={"devices": {"constraints": [same_node]}}),
        name="numa-alignment strict",
        limits=_TWO,
    )
    yield _row(
        userkeys.NUMA_ALIGNMENT,
        "best-effort",
        Outcome(
            says="first alternative on one NUMA node, then any",
            claim=either({}) | {"devices": {"constraints": [same_node]}},
        ),
        name="numa-alignment best-effort",
        limits=_TWO,
    )
    yield _row(
        userkeys.GPU_POLICY,
        "topology-aware",
        Outcome(
            says="`topology-aware`: first alternative below one PCIe root, then any",
            claim={
                "devices": {"constraints": [{"matchAttribute": "resource.kubernetes.io/pcieRoot"}]}
            },
        ),
        name="gpu policy topology-aware",
        limits=_TWO,
    )


def _policy_rows() -> Iterator[Row]:
    filled = [{"cel": {"expression": _with("fillLevel")}}]
    yield _row(
        userkeys.GPU_POLICY,
        "mutex",
        Outcome(
            says="`mutex`: all shares of the GPU, and all its cores unless fewer are asked for",
            claim=exactly(capacity={"requests": {"shares": "10", "cores": "100"}}),
        ),
        name="gpu policy mutex",
    )
    for word in ("binpack", "spread"):
        yield _row(
            userkeys.GPU_POLICY,
            word,
            Outcome(
                says=f"`{word}`: alternatives by how full GPUs are, where they publish it;"
                " else a warning",
                claim=either({"selectors": filled}),
            ),
            name=f"gpu policy {word}",
        )
    yield _row(
        userkeys.GPU_POLICY,
        "numa",
        Outcome(
            says="`numa`: as `numa-alignment: best-effort`",
            claim={
                "devices": {"constraints": [{"matchAttribute": "resource.kubernetes.io/numaNode"}]}
            },
        ),
        name="gpu policy numa",
        limits=_TWO,
    )
    yield _row(
        userkeys.NODE_POLICY,
        "binpack",
        Outcome(
            says="read as the policy of GPUs, unless that is given",
            claim=either({"selectors": filled}),
        ),
    )
    yield _row(
        userkeys.SCORING_WEIGHTS,
        "slot=1,core=1,memory=3",
        Outcome(says="checked; a warning: no effect on claims", warned="WithoutEffect"),
    )
    wrong = Outcome(says="refused", refused="ScoringWeightsInvalid")
    yield Row(
        name="weights that are none",
        keys=(userkeys.SCORING_WEIGHTS,),
        given=f"`{userkeys.SCORING_WEIGHTS}: slot=1`",
        limits=_SHARE,
        annotations={userkeys.SCORING_WEIGHTS: "slot=1"},
        dra=wrong,
        hami=wrong,
    )
    for key in (GPU, MEMORY, PERCENT, CORES):
        no_effect = Outcome(says="a warning: no effect", warned="AnnotationWithoutEffect")
        yield Row(
            name=f"annotation {key.partition('/')[2]}",
            keys=(key,),
            given=f"annotation `{key}: 1`",
            limits=_SHARE,
            annotations={key: "1"},
            dra=no_effect,
            hami=no_effect,
        )
    for name in sorted(userkeys.FRACTION_NAMES):
        no_effect = Outcome(says="a warning: no effect", warned="AnnotationWithoutEffect")
        yield Row(
            name=f"annotation {name}",
            keys=(name,),
            given=f"annotation `{name}: 0.5`",
            limits=_SHARE,
            annotations={name: "0.5"},
            dra=no_effect,
            hami=no_effect,
        )
