"""How long to wait before the next try, so that many nodes do not come back in step."""

import random
from dataclasses import dataclass, field


@dataclass(slots=True)
class Backoff:
    """Waits that double from *first_s* up to *max_s*, each cut by up to a half by chance."""

    first_s: float = 0.2
    max_s: float = 30.0
    _failures: int = field(default=0, init=False)

    def next_s(self) -> float:
        """Return how many seconds to wait after one more failure."""
        # Beyond 2**32 the cap has long been reached.
        delay_s = min(self.max_s, self.first_s * 2 ** min(self._failures, 32))
        self._failures += 1
        return random.uniform(delay_s / 2, delay_s)  # noqa: S311 - no secret

    @property
    def failures(self) -> int:
        """How many failures there were since the last success."""
        return self._failures

    def reset(self) -> None:
        """Begin anew after a success."""
        self._failures = 0
