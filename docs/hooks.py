"""Pages that are made when the site is built: the configuration reference, and the files beside the README."""

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

from lvmdc.cli.options import configuration_page

ROOT = Path(__file__).resolve().parents[1]
BESIDE = {name: f"{name.lower()}.md" for name in ("CONTRIBUTING", "CHANGELOG", "SECURITY")}


def on_files(files: Files, config: Any) -> Files:
    """Add the pages; MkDocs checks their links as those of any other page."""
    files.append(File.generated(config, "configuration.md", content=configuration_page()))
    for name, page in BESIDE.items():
        files.append(File.generated(config, page, content=as_page((ROOT / f"{name}.md").read_text(encoding="utf-8"))))
    return files


def as_page(text: str) -> str:
    """A file of the repository's root as a page: its links to docs/ stay on the site, those to code become plain."""
    text = re.sub(r"\]\(docs/", "](", text)
    for name, page in BESIDE.items():
        text = text.replace(f"]({name}.md", f"]({page}")
    return re.sub(r"\[([^\]]+)\]\((?!https?:|#)(?![^)]*\.md)[^)]+\)", r"\1", text)
