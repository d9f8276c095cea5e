"""Every rule of device allocation, and how to break it."""

from typing import Final

from tests.sim.scheduler.mutation import Mutation

_RULES: Final = (
    # Pools.
    ("an incomplete pool gives nothing", "pools", "incomplete=True)", "incomplete=False)"),
    ("a pool counts in its newest generation", "pools", "max(part.gen", "min(part.gen"),
    ("an obsolete pool is dropped", "pools", "if any(part.generation > newest", "if any(False"),
    (
        "device names are unique in a pool",
        "pools",
        "repeated = _repeated(made.id.device for made in devices)",
        'repeated = ""',
    ),
    (
        "counter sets are unique in a pool",
        "pools",
        "repeated = _repeated(name for name, _ in counter_sets)",
        'repeated = ""',
    ),
    ("counter sets must be known", "pools", "if set_name not in known:", "if not known:"),
    ("pools are sorted", "pools", "tuple(sorted(pools, key=_order))", "tuple(reversed(pools))"),
    ("slices are sorted", "pools", "return part.name.encode()", 'return b""'),
    (
        "pools that wait for binding come last",
        "pools",
        "return pool.waits_for_binding, pool",
        "return False, pool",
    ),
    (
        "a device may choose its nodes itself",
        "selecting",
        "if device.place is not None and not",
        "if device.place is not None and False and",
    ),
    ("a slice is for the nodes it selects", "pools", "is not None and selects(", "is None or ("),
    # Selectors.
    ("class selectors count", "selecting", '[*(spec.get("selectors") or ()), ', "["),
    ("request selectors count", "selecting", ", *wanted.selectors]", "]"),
    (
        "an error of a selector stops the pod",
        "selecting",
        'raise FatalError("SelectorFailed", f"device {device.id}: {error}") from error',
        "return False",
    ),
    (
        "an unknown domain is empty",
        "cel",
        'pieces.append(f"{token[\'index\']}?")\n            endings.append(".orValue({})")',
        "pieces.append(token['index'])\n            endings.append('')",
    ),
    ("a class must exist", "checking", "if device_class is None:", "if False:"),
    # Count, all and alternatives.
    ("a claim has at most 32 devices", "checking", "RESULTS_MAX = 32", "RESULTS_MAX = 1000"),
    (
        "all devices need whole pools",
        "checking",
        "        _check_whole(pool, wanted)\n        for",
        "        for",
    ),
    ("no device is not all devices", "search", "ALL and not need.candidates:", "ALL and False:"),
    ("devices are taken in their order", "search", "position + 1))", "0))"),
    ("alternatives are tried in order", "search", "in range(alternatives)", "in (0,)"),
    (
        "a fit is undone when the rest fails",
        "search",
        "self._attempt.undo(at.claim)\n            if",
        "if",
    ),
    (
        "an alternative has no admin access",
        "requests",
        "admin=False)",
        'admin=bool(sub.get("adminAccess")))',
    ),
    # What is in use.
    (
        "devices of other claims are in use",
        "attempt",
        "if device.id in self._scene.usage.dedicated:",
        "if False:",
    ),
    (
        "devices of the same pod are in use",
        "attempt",
        "for made in self.results for it in self._whole(made)):",
        "for made in () for it in self._whole(made)):",
    ),
    (
        "a claim has no device twice for admin access",
        "attempt",
        "for it in self._whole(self.results[claim])",
        "for it in ()",
    ),
    ("admin access sees devices in use", "attempt", "if wanted.admin:", "if False:"),
    ("admin access holds nothing", "usage", 'if result.get("adminAccess"):', "if False:"),
    # Capacity.
    (
        "shares of other claims use capacity",
        "attempt",
        "usage.used.get(device.id, {})",
        "usage.used.get(None, {})",
    ),
    (
        "shares of the same pod use capacity",
        "attempt",
        "yield from (it.consumed for made in self.results",
        "yield from (it.consumed for made in ()",
    ),
    ("a capacity must be there", "capacity", "if name not in device.capacity:", "if False:"),
    ("amounts are rounded up to a step", "capacity", "steps = -(-(", "steps = (("),
    ("amounts are raised to the minimum", "capacity", "if asked < minimum:", "if False:"),
    ("amounts stay below the maximum", "capacity", "amount > policy.maximum:", "False:"),
    (
        "amounts are raised to the next value",
        "capacity",
        "return next((value for value in policy.values if value >= asked), asked)",
        "return asked",
    ),
    (
        "amounts are among the values",
        "capacity",
        "return bool(policy.values) and amount not in policy.values",
        "return False",
    ),
    (
        "who asks for nothing has the default",
        "capacity",
        "return capacity.value if default is None else default",
        "return capacity.value",
    ),
    ("amounts wrap around or stop", "capacity", "if not -_INT64 <= amount < _INT64:", "if False:"),
    # Counters.
    ("counters run out", "counters", "if free < drawn.get(name, 0):", "if False:"),
    ("held devices draw on counters", "counters", "if usage.holds(device.id):", "if False:"),
    (
        "held devices of other nodes draw on counters",
        "counters",
        "(*pool.slices, *pool.elsewhere)",
        "pool.slices",
    ),
    (
        "a share draws on counters once",
        "attempt",
        "if device.shareable and self._has_shares(device):",
        "if False:",
    ),
    (
        "a device that is refused gives counters back",
        "attempt",
        "self._counters.give_back(candidate.pool, device)",
        "pass",
    ),
    (
        "a device that is returned gives counters back",
        "attempt",
        "self._counters.give_back(taken.pool, device)",
        "pass",
    ),
    # Taints.
    (
        "taints keep devices from being used",
        "taints",
        'if taint.get("effect") not in _BLOCKING:',
        "if taint:",
    ),
    (
        "an advice is no taint",
        "taints",
        '("NoSchedule", "NoExecute")',
        '("NoSchedule", "NoExecute", "None")',
    ),
    (
        "tolerations have an effect",
        "taints",
        'if effect and effect != taint.get("effect"):',
        "if False:",
    ),
    ("tolerations have a value", "taints", "return exists or (", "return True or ("),
    ("tolerations have a key", "taints", 'if key != taint.get("key"):', "if False:"),
    (
        "rules of administrators taint devices",
        "rules",
        "return replace(made",
        "return made if made else replace(made",
    ),
    # Constraints.
    ("matchAttribute compares", "constraints", "if not shared or (", "if ("),
    ("distinctAttribute compares", "constraints", "if any(values & known or", "if any("),
    (
        "a missing attribute refuses",
        "constraints",
        "return _missing(self._name)\n        shared",
        "return None\n        shared",
    ),
    ("constraints name requests", "requests", "return not names or", "return True or"),
    (
        "the domain of the driver is the bare name's",
        "constraints",
        "if domain == device.id.driver:",
        "if False:",
    ),
    (
        "constraints are rolled back together",
        "attempt",
        "earlier.remove(wanted, device)",
        "pass",
    ),
    (
        "a constraint on all devices stops the pod",
        "attempt",
        "raise FatalError(refused.code, message)",
        "return refused",
    ),
    # The allocation.
    ("tolerations are copied", "allocation", '"tolerations": list(wanted.tolerations),', ""),
    (
        "class config is copied",
        "allocation",
        'for entry in spec.get("config") or ()',
        "for entry in ()",
    ),
    ("claim config is copied", "allocation", "made += [copy] * (", "made += [copy] * 0 * ("),
    ("a device of a node ties to the node", "allocation", "if place.node_name or", "if False or"),
    ("node selectors are united", "allocation", "if item not in known]", "]"),
    # Nodes.
    ("earlier alternatives win", "allocator", "_RANK_MAX - rank", "rank"),
    (
        "an allocated claim chooses the node",
        "placement",
        "and not selects(selector, here)",
        "and False",
    ),
    (
        "device plugins come before claims",
        "extended",
        "        if offers(node, resource):\n            continue\n",
        "",
    ),
    ("init containers reuse devices", "extended", "missing -= other.number", "missing -= 0"),
)

_SINCE_1_37: Final = (
    "all_mode_needs_capacity",
    "config_once",
    "counters_by_driver",
    "counters_for_all_nodes",
    "distinct_per_device",
    "list_constraints",
    "rules_need_selector",
    "shares_need_amounts",
    "taint_rules",
    "unrepresentable_is_fatal",
    "written_as_step",
)

MUTATIONS: Final = (
    *(Mutation(rule=rule, module=module, old=old, new=new) for rule, module, old, new in _RULES),
    *(
        Mutation(
            rule=f"1.37 has its own {name}",
            module="features",
            old=f"        {name}=",
            new=f"        {name}=not ",
        )
        for name in _SINCE_1_37
    ),
)
