"""An HTML page that needs nothing else: style, skeleton, escaping and images inside it."""

import base64
import html
import io
import re

from PIL import Image

# Ready for a light or a dark screen, a telephone and a printer. Colours of series: Okabe and Ito, a shade lighter on dark.
STYLE = """
:root { color-scheme: light dark; --paper: #ffffff; --ink: #1d2126; --faint: #5c6670; --line: #d5dae0; --panel: #f5f7f9;
  --series-0: #0072b2; --series-1: #d55e00; --series-2: #009e73; --series-3: #b0558b; --series-4: #8a6d00; --series-5: #4d4d4d; }
@media (prefers-color-scheme: dark) { :root { --paper: #14171a; --ink: #e4e8ec; --faint: #9aa5b0; --line: #363d45; --panel: #1d2226;
  --series-0: #56b4e9; --series-1: #f28e3c; --series-2: #2fc79a; --series-3: #df8fc0; --series-4: #e6cf4a; --series-5: #b8bec4; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 72rem; padding: 1rem; background: var(--paper); color: var(--ink);
  font: 1rem/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; overflow-wrap: break-word; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0.5rem 0 1rem; }
h2 { font-size: 1.2rem; margin: 2rem 0 0.75rem; padding-bottom: 0.25rem; border-bottom: 1px solid var(--line); }
summary { cursor: pointer; color: var(--faint); padding: 0.25rem 0; }
.wide { overflow: auto; }
details .wide { max-height: 32rem; }
.settings td { overflow-wrap: anywhere; }
.settings td:first-child { white-space: nowrap; }
table { border-collapse: collapse; font-size: 0.925rem; }
th, td { padding: 0.3rem 0.8rem; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top; }
th { color: var(--faint); font-weight: 600; white-space: nowrap; }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.curves { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(22rem, 100%), 1fr)); gap: 1rem; }
.curves svg { display: block; width: 100%; height: auto; background: var(--panel); border-radius: 6px; }
.images { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(11rem, 45%), 1fr)); gap: 0.75rem; }
figure { margin: 0; background: var(--panel); border-radius: 6px; overflow: hidden; }
figure img { display: block; width: 100%; height: auto; }
figure.wide { grid-column: 1 / -1; }
figure.wide img { width: auto; max-width: 100%; }
figcaption { padding: 0.4rem 0.6rem; font-size: 0.85rem; color: var(--ink); }
pre { background: var(--panel); border-radius: 6px; padding: 0.75rem; overflow-x: auto; overflow-wrap: normal; }
code { font: 0.875rem/1.5 ui-monospace, Menlo, Consolas, monospace; }
.legend { display: flex; flex-wrap: wrap; gap: 0.25rem 1.25rem; margin: 0 0 0.75rem; padding: 0; font-size: 0.85rem; list-style: none; }
.legend li { display: flex; align-items: center; gap: 0.5rem; }
.faint { color: var(--faint); }
@media print { body { max-width: none; } figure, svg { break-inside: avoid; } }
""".strip()

# Nothing is fetched and no script runs, whatever a name that was not escaped might ask for.
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


def escape(text: object, quote: bool = True) -> str:
    """Text that HTML shows as it is: `<`, `&` and quotes as entities, what no page may hold as `�`.

    >>> escape('<b a="1">')
    '&lt;b a=&quot;1&quot;&gt;'
    """
    return html.escape(re.sub("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]", "�", str(text)), quote)


def page(title: str, body: str) -> str:
    """A whole page around a body that is HTML already.

    >>> page("A & B", "<p>text</p>").splitlines()[0]
    '<!DOCTYPE html>'
    """
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<style>
{STYLE}
</style>
</head>
<body>
<h1>{escape(title)}</h1>
{body}
</body>
</html>
"""


def inline_image(image: Image.Image, alt: str) -> str:
    """An `<img>` that holds its own PNG.

    >>> inline_image(Image.new("RGB", (2, 1)), alt="nothing")[:44]
    '<img src="data:image/png;base64,iVBORw0KGgoA'
    """
    data = base64.b64encode(png(image)).decode()
    return f'<img src="data:image/png;base64,{data}" width="{image.width}" height="{image.height}" alt="{escape(alt)}">'


def png(image: Image.Image) -> bytes:
    """The bytes of a PNG file.

    >>> png(Image.new("RGB", (2, 1)))[1:4]
    b'PNG'
    """
    file = io.BytesIO()
    image.save(file, format="PNG")
    return file.getvalue()
