"""Exact looks at single nodes for one pod, as few as will do."""

from collections.abc import Callable, Hashable

from extender.arrays import Columns
from extender.choosing_columns import signature
from extender.choosing_question import Question
from extender.choosing_reasons import Said, said
from extender.model import Misfit, Placement


class Looks:
    """Looks at nodes and remembers refusals; of nodes of one shape one is enough."""

    def __init__(
        self, fit: Callable[[int], Placement | Misfit], columns: Columns, question: Question
    ) -> None:
        self.refused: dict[int, Said] = {}
        self._fit, self._columns = fit, columns
        self._by_shape: dict[Hashable, Said] | None = None if question.has_uuids else {}

    def look(self, column: int) -> Placement | None:
        """Return where the pod goes on a node, or remember why it does not."""
        shapes = self._by_shape
        shape = signature(self._columns, column) if shapes else None
        if shapes and shape in shapes:
            self.refused[column] = shapes[shape]
            return None
        found = self._fit(column)
        if isinstance(found, Placement):
            return found
        self.refused[column] = told = said(found)
        if shapes is not None:
            shapes[signature(self._columns, column) if shape is None else shape] = told
        return None
