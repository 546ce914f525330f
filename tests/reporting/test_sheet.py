import numpy as np
import pytest
from PIL import Image

from lvmdc.reporting import contact_sheet, draw_legend
from lvmdc.reporting.drawing import PREDICTED, TRUTH


def holds(image, colour):
    return bool((np.asarray(image) == colour).all(axis=2).any())


@pytest.mark.parametrize("columns", [1, 2, 3, 4, 9])
def test_every_image_is_on_the_sheet_whole(columns):
    sizes = [(40, 30), (30, 50), (60, 20), (40, 40), (20, 20)]
    images = [Image.new("RGB", size, (i + 1, 0, 0)) for i, size in enumerate(sizes)]
    sheet = np.asarray(contact_sheet(images, columns=columns))
    for i, (width, height) in enumerate(sizes):
        assert (sheet == (i + 1, 0, 0)).all(axis=2).sum() == width * height


def test_the_legend_shows_both_lines_and_never_leaves_the_sheet():
    for width in (60, 200, 500, 2000):
        legend = draw_legend(width)
        assert legend.width == width
        assert holds(legend, TRUTH)
        assert holds(legend, PREDICTED)
    image = Image.new("RGB", (300, 40))
    bare, full = contact_sheet([image], legend=False), contact_sheet([image])
    assert holds(full, TRUTH)
    assert not holds(bare, TRUTH)
    assert full.height > bare.height


def test_nothing_to_show_is_refused():
    with pytest.raises(ValueError, match="images must hold at least one"):
        contact_sheet([])
    with pytest.raises(ValueError, match="columns must be at least 1"):
        contact_sheet([Image.new("RGB", (4, 4))], columns=0)
