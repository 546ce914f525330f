"""Test pictures as each method sees them, side by side."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from PIL import Image

from lvmdc.data.pictures import PictureSet
from lvmdc.reporting import contact_sheet, draw_detection
from lvmdc.reporting.files import write_atomically
from lvmdc.reporting.page import escape, inline_picture, page, png
from lvmdc.reproduction.problem import Problem
from lvmdc.reproduction.run import Run
from lvmdc.reproduction.tables import TITLES, point_text

Shown = Mapping[str, tuple[Run, Mapping[str, Any]]]  # method → its run in the first fold, and what that predicted


def draw_examples(shown: Shown, problem: Problem, pictures: PictureSet, count: int = 6, size: int = 256) -> Image.Image:
    """A sheet of test pictures of the first fold, a row each, a column a method: true box, predicted box, P_θ(h|x,y).

    Boxes and posteriors are those that the runs left in their results; a posterior all on one box is not drawn.
    """
    first = next(iter(shown.values()))[0]
    _, test = first.division.parts(problem.y, problem.groups)
    candidates, y, truth = problem.candidates.subset(test), problem.y[test], problem.truth[test]
    assert candidates.boxes is not None
    drawn = []
    for i in torch.linspace(0, len(test) - 1, min(len(test), count)).long().tolist():  # samples stand by class: some of each
        start = int(candidates.offsets[i])
        boxes = candidates.boxes[start : start + int(candidates.counts[i])]
        name = pictures.classes[int(y[i])]
        for method, (_, predicted) in shown.items():
            guess, p = pictures.classes[predicted["y"][i]], predicted.get("p")
            caption = f"{method}: {name}" if guess == name else f"{method}: {name}, taken for {guess}"
            places, belief = (None, None) if p is None else (boxes, p[start : start + len(boxes)])
            image, box = pictures.image(int(test[i])), boxes[predicted["h"][i]]
            drawn.append(draw_detection(image, box, truth[i], places, belief, caption, size, guess == name))
    return contact_sheet(drawn, columns=len(shown))


def write_examples(folder: Path, title: str, shown: Mapping[str, Shown], problem: Problem, pictures: PictureSet, count: int) -> None:
    """Write `examples_<loss>.png` for each loss, and `examples.html` with all of them."""
    sections = []
    for loss, own in shown.items():
        sheet = draw_examples(own, problem, pictures, count)
        write_atomically(folder / f"examples_{loss}.png", png(sheet))
        chosen = "; ".join(f"{method}: {point_text(run.point)}" for method, (run, _) in own.items())
        about = f"Test pictures of the first fold, at the hyperparameters of lowest mean test loss ({chosen})."
        name = TITLES.get(loss, loss)
        sections.append(f"<section>\n<h2>{escape(name)}</h2>\n<p>{escape(about)}</p>\n{inline_picture(sheet, alt=name)}\n</section>")
    write_atomically(folder / "examples.html", page(title, "\n".join(sections)).encode())
