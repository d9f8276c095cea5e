"""Looking for garbage is put off while a cluster is read, and goes on with what is young."""

import gc

from extender import collecting


def test_it_is_put_off_and_taken_up_again() -> None:
    """Thresholds are raised for the start, lowered when all is read, and as before at the end."""
    before = gc.get_threshold()
    frozen = gc.get_freeze_count()
    try:
        with collecting.seldom():
            at_start = gc.get_threshold()
            assert gc.isenabled()
            collecting.settle()
            assert gc.get_freeze_count() > frozen
            assert before[0] < gc.get_threshold()[0] < at_start[0]
        assert gc.get_threshold() == before
    finally:
        gc.unfreeze()
