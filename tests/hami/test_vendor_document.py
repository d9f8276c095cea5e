"""What the documents say of other vendors' device plugins is what is served."""

from tests.hami.vendor_document import DOCUMENT, table, written


def test_the_table_is_that_of_the_code() -> None:
    """A vendor that is added, or a key that changes, is in the document too."""
    text = DOCUMENT.read_text()
    assert written(text) == text


def test_every_vendor_has_a_row() -> None:
    """NVIDIA's plugin is the document's own subject."""
    rows = table().splitlines()[2:]
    words = [row.split(" | ")[0].removeprefix("| ") for row in rows]
    assert {"MLU", "DCU", "Metax-SGPU", "kunlun", "Enflame", "Ascend910B3"} <= set(words)
    assert "NVIDIA" not in words
    assert len(words) == len(set(words))
