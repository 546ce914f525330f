"""Small devkits in the layout of PASCAL VOC, for the tests of what reads them."""

from pathlib import Path

from PIL import Image

ACTIONS = (
    *("jumping", "phoning", "playinginstrument", "reading", "ridingbike", "ridinghorse", "running"),
    *("takingphoto", "usingcomputer", "walking", "other"),
)
SIZE = (40, 30)


def annotation(people, size=SIZE, with_actions=True):
    """An annotation file: people as (xmin, ymin, xmax, ymax, *actions); a name instead of numbers is another object."""
    objects = []
    for person in people:
        name, corners, shown = (person, (1, 1, 5, 5), ()) if isinstance(person, str) else ("person", person[:4], person[4:])
        box = "".join(f"<{corner}>{value}</{corner}>" for corner, value in zip(("xmin", "ymin", "xmax", "ymax"), corners, strict=True))
        actions = "".join(f"<{action}>{int(action in shown)}</{action}>" for action in ACTIONS)
        shown = f"<actions>{actions}</actions>" if with_actions and name == "person" else ""
        objects.append(f"<object><name>{name}</name><bndbox>{box}</bndbox>{shown}</object>")
    head = f"<size><width>{size[0]}</width><height>{size[1]}</height><depth>3</depth></size>"
    return f"<annotation>\n<folder>VOC</folder>\n{head}\n{''.join(objects)}\n</annotation>\n"


def write_devkit(path: Path, images, year=2011, with_actions=True) -> Path:
    """`path/VOC<year>` with one image for each entry of `images`: name → people as `annotation` takes them."""
    root = path / f"VOC{year}"
    lists = root / "ImageSets" / "Action"
    for folder in (root / "JPEGImages", root / "Annotations", lists):
        folder.mkdir(parents=True)
    known = ACTIONS[1:-1] if year == 2010 else ACTIONS[:-1]
    shown = {action: "" for action in known}
    for i, (name, people) in enumerate(images.items()):
        Image.new("RGB", SIZE, (17 * i % 256, 90, 130)).save(root / "JPEGImages" / f"{name}.jpg")
        (root / "Annotations" / f"{name}.xml").write_text(annotation(people, with_actions=with_actions))
        for number, person in enumerate(people, start=1):
            for action in known if not isinstance(person, str) else ():
                shown[action] += f"{name}  {number} {1 if action in person[4:] else -1:2d}\n"
    for split in ("train", "val", "trainval"):
        (lists / f"{split}.txt").write_text("".join(f"{name}\n" for name in images))
        for action, lines in shown.items():
            (lists / f"{action}_{split}.txt").write_text(lines)
    return path


IMAGES = {
    "2011_000001": [(1, 2, 20, 30, "running")],
    "2011_000002": [(1, 1, 8, 8, "reading"), (5, 5, 40, 30, "phoning"), "horse"],  # the larger of two
    "2011_000003": [(2, 2, 30, 25, "phoning", "walking")],  # two actions
    "2011_000004": [(2, 2, 30, 25, "other"), (1, 1, 4, 4, "running")],  # none of the ten
    "2011_000005": ["dog"],  # no person
    "2011_000006": ["dog", (3, 3, 21, 22, "running", "other")],
}
