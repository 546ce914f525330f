"""The pictures of the README and the site: `python benchmarks/pictures.py`. Screenshots need Chromium; without it they are left out.

A training whose P_θ sharpens over nine iterations gives docs/detections.png, docs/report.png, docs/report_dark.png and
docs/tensorboard.png.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.parse import quote

from PIL import Image
from tensorboard import program

from lvmdc.reporting import contact_sheet, with_caption

ROOT = Path(__file__).resolve().parents[1]
RUN = ["scripts/train.py", "experiment=object_detection", "method.anneal=2"]
QUIET = ["--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"]
TAGS = "^(train/(objective|loss|entropy|slack)|images/train)"


def save(image: Image.Image, path: Path, width: int = 960) -> None:
    """As a PNG of that width and 256 colours, which is a third of the size."""
    small = image.convert("RGB").resize((width, image.height * width // image.width), Image.Resampling.LANCZOS)
    small.quantize(256, kmeans=2, dither=Image.Dither.NONE).save(path, optimize=True)


def screenshot(browser: str, url: str, path: Path, height: int, *options: str, width: int = 1200) -> None:
    """What a browser shows of a page in a window of that size."""
    with tempfile.TemporaryDirectory() as folder:
        taken = Path(folder, "page.png")
        places = [f"--user-data-dir={folder}/profile", f"--screenshot={taken}", f"--window-size={width},{height}"]
        command = [browser, "--headless", "--no-sandbox", "--disable-3d-apis", "--hide-scrollbars", *QUIET, *places, *options, url]
        subprocess.run(command, check=True, capture_output=True, timeout=120)
        with Image.open(taken) as image:
            save(image, path)


def main(docs: Path) -> None:
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder, "run")
        subprocess.run([sys.executable, *RUN, f"hydra.run.dir={run}"], cwd=ROOT, check=True)
        drawn = sorted(path for path in (run / "images").glob("*.png") if path.stem != "all")
        chosen = [with_caption(Image.open(path), path.stem) for path in drawn[:: len(drawn) // 8][:8]]
        save(contact_sheet(chosen, 4, meanings=["truth", "predicted", "heat", "right", "wrong"]), docs / "detections.png")
        if browser is None:
            print("no Chromium: no screenshots")
            return
        page, curves = run / "report.html", run / "curves.html"
        curves.write_text(page.read_text(encoding="utf-8").replace("</style>", "h1, section:not(#curves) { display: none; }</style>"))
        screenshot(browser, page.as_uri(), docs / "report.png", 990)
        screenshot(browser, curves.as_uri(), docs / "report_dark.png", 680, "--blink-settings=preferredColorScheme=0")
        board = program.TensorBoard()
        board.configure(argv=["", "--logdir", str(run), "--host", "127.0.0.1", "--port", "0", "--load_fast", "false"])
        url = f"{board.launch()}?smoothing=0&tagFilter={quote(TAGS)}#timeseries"
        screenshot(browser, url, docs / "tensorboard.png", 1000, "--virtual-time-budget=30000", width=1500)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--docs", type=Path, default=ROOT / "docs", help="folder of the pictures")
    main(parser.parse_args().docs)
