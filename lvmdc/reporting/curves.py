"""Where the ticks of an axis stand, and what is written at them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lvmdc.reporting.page import escape


def linear_ticks(low: float, high: float, about: int = 5, whole: bool = False) -> list[float]:
    """Round numbers (1, 2 or 5 × a power of ten apart) that lie within low..high, about so many; whole numbers only if asked.

    >>> linear_ticks(0.0, 1.0), linear_ticks(1, 3, whole=True)
    ([0.0, 0.2, 0.4, 0.6, 0.8, 1.0], [1.0, 2.0, 3.0])
    """
    rough = (high - low) / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= rough * (1 - 1e-9))
    step = max(1.0, step) if whole else step
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [float(f"{i * step:.12g}") for i in range(first, last + 1)]  # 0.30000000000000004 is 0.3


def log_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Powers of ten within low..high, every second or third if there are many; 1, 2 and 5 × them if there are fewer than two.

    >>> log_ticks(0.5, 2000.0), log_ticks(2.0, 30.0)
    ([1.0, 10.0, 100.0, 1000.0], [2.0, 5.0, 10.0, 20.0])
    """
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    if last > first:
        return [10.0**k for k in range(first, last + 1, 1 + (last - first) // most)]
    fine = [float(f"{m * 10.0**k:.12g}") for k in range(first - 1, last + 1) for m in (1, 2, 5)]
    ticks = [v for v in fine if low * (1 - 1e-9) <= v <= high * (1 + 1e-9)]
    return ticks if len(ticks) > 1 else linear_ticks(low, high)


def label(value: float) -> str:
    """A tick's number, short.

    >>> label(0.25), label(20000.0), label(3e-06), label(0.0), label(-5.0)
    ('0.25', '20000', '3e-6', '0', '−5')
    """
    text = f"{value:.6g}" if value == 0 or 1e-3 <= abs(value) < 1e6 else f"{value:.4g}"
    mantissa, _, exponent = text.partition("e")
    return (mantissa + (f"e{int(exponent)}" if exponent else "")).replace("-", "−" if not exponent else "-")


# Line charts as inline SVG.

WIDTH, CHART, EDGE, BOTTOM = 460, 210, 14, 42  # of the image, its chart and its margins; small, for a page scales it
HEAD, LINE, LETTER = 36, 18, 6.8  # where the legend begins, a line of it, the mean width of a letter
LARGEST = 1e300  # numbers beyond it count as infinite: their differences would be
LEAST_SPAN = 0.02  # of the largest number: an axis over less would make noise look like a trend
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#b0558b", "#8a6d00", "#777777")  # where the page sets none; they do on light and dark
DASHES = ("none", "7 3", "2 3", "9 3 2 3", "5 5", "1 4")
MARKS = ("M-3,0a3,3 0 1,0 6,0a3,3 0 1,0 -6,0Z", "M-3,-3H3V3H-3Z", "M0,-4L3.8,3H-3.8Z", "M0,-4.2L4.2,0L0,4.2L-4.2,0Z", "M0,4L3.8,-3H-3.8Z")
MOST_MARKS = 60  # with more points than this, marks would hide the line
NAMESPACE = 'xmlns="http://www.w3.org/2000/svg"'  # a name, fetched by nobody; SVG files need it, HTML pages do not

Point = tuple[float, float]


def line_chart(
    series: Mapping[str, Sequence[float | None]],
    x: Sequence[float],
    title: str,
    ylabel: str,
    log: bool = False,
    xlabel: str = "iteration",
) -> str:
    """An SVG of one line for each series over x, with axes, ticks and a legend; lines differ in colour, dashes and marks.

    A value that is None was not measured, and the line goes on to the next. One that is NaN or infinite, or not positive on a
    logarithmic axis, is a gap in the line, and the chart says how many there are. A mark pointed at tells its number.

    >>> svg = line_chart({"objective": [3.0, 2.0, 1.5]}, x=[1, 2, 3], title="Objective", ylabel="value")
    >>> svg.startswith("<svg"), svg.count('class="mark"')
    (True, 3)
    """
    for name, values in series.items():
        if len(values) != len(x):
            raise ValueError(f"series[{name!r}] must have as many values as x = {len(x)}, but it has {len(values)}")
    points = {name: [(float(a), float(b)) for a, b in zip(x, values, strict=True) if b is not None] for name, values in series.items()}
    runs = {name: _runs(own, log) for name, own in points.items()}
    shown = [point for parts in runs.values() for run in parts for point in run]
    left_out = sum(map(len, points.values())) - len(shown)
    legend, top = _legend(list(series))
    bottom, middle = top + CHART, top + CHART // 2
    parts = [
        f'<svg {NAMESPACE} viewBox="0 0 {WIDTH} {bottom + BOTTOM}" role="img" aria-label="{escape(title)}"'
        ' font-family="system-ui, sans-serif" font-size="12" fill="currentColor">',
        f'<text x="{EDGE}" y="20" font-size="14" font-weight="600">{escape(title)}</text>',
        *legend,
    ]
    if shown:
        across, up = _axes(shown, top, bottom, log)
        parts += _grid(across, up, all(a == round(a) for a, _ in shown))
        for i, (name, own) in enumerate(runs.items()):
            parts += _line(i, name, own, across, up, xlabel)
    else:
        parts.append(f'<text x="{WIDTH // 2}" y="{middle}" text-anchor="middle">nothing to show</text>')
    note = f" ({left_out} left out: not finite{' or ≤ 0' if log else ''})" if left_out else ""
    parts += [
        f'<text x="{WIDTH // 2}" y="{bottom + BOTTOM - 8}" text-anchor="middle" opacity="0.75">{escape(xlabel)}{note}</text>',
        f'<text transform="translate({EDGE} {middle}) rotate(-90)" text-anchor="middle" opacity="0.75">{escape(ylabel)}</text>',
        "</svg>",
    ]
    return "\n".join(parts)


@dataclass(frozen=True)
class _Axis:
    """Numbers low..high on pixels start..end, and the numbers that get a tick."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        low, high, value = (math.log10(v) if self.log else v for v in (self.low, self.high, value))
        return self.start + (value - low) / (high - low) * (self.end - self.start)


def _runs(points: list[Point], log: bool) -> list[list[Point]]:
    """The stretches of points that can be shown."""
    runs: list[list[Point]] = [[]]
    for a, b in points:
        if abs(a) < LARGEST and abs(b) < LARGEST and (b > 1 / LARGEST or not log):
            runs[-1].append((a, b))
        elif runs[-1]:
            runs.append([])
    return [run for run in runs if run]


def _axes(shown: list[Point], top: float, bottom: float, log: bool) -> tuple[_Axis, _Axis]:
    (x_low, x_high), (low, high) = ((min(values), max(values)) for values in zip(*shown, strict=True))
    if x_low == x_high:
        x_low, x_high = x_low - 0.5, x_high + 0.5
    if log:
        margin = 10 ** min(max(0.05 * (math.log10(high) - math.log10(low)), 0.08), 1)
        low, high = low / margin, high * margin
    else:
        span = max(high - low, LEAST_SPAN * max(abs(low), abs(high)))
        span = span if span > 1 / LARGEST else 1.0
        low, high = (low + high - span) / 2, (low + high + span) / 2
        # From zero where that costs little of the image, and below it only for what is negative.
        low, high = (0.0 if 0 <= low < 0.5 * span else low - 0.05 * span), high + 0.05 * span
    up = _Axis(low, high, bottom, top, log)
    left = EDGE + 16 + LETTER * max(len(label(value)) for value in _ticks(up))
    return _Axis(x_low, x_high, left + 8, WIDTH - EDGE - 8), up


def _ticks(up: _Axis) -> list[float]:
    return (log_ticks if up.log else linear_ticks)(up.low, up.high)


def _grid(across: _Axis, up: _Axis, whole: bool) -> list[str]:
    left, right, bottom = across.start - 8, across.end + 8, up.start
    parts = []
    for value in _ticks(up):
        y = up(value)
        parts.append(f'<path d="M{left:.1f},{y:.1f}H{right:.1f}" stroke="currentColor" opacity="0.15"/>')
        parts.append(f'<text x="{left - 6:.1f}" y="{y + 4:.1f}" text-anchor="end">{label(value)}</text>')
    for value in linear_ticks(across.low, across.high, about=6, whole=whole):
        place = across(value)
        parts.append(f'<path d="M{place:.1f},{bottom}v4" stroke="currentColor" opacity="0.6"/>')
        parts.append(f'<text x="{place:.1f}" y="{bottom + 17}" text-anchor="middle">{label(value)}</text>')
    parts.append(f'<path d="M{left:.1f},{up.end}V{bottom}H{right:.1f}" fill="none" stroke="currentColor" opacity="0.6"/>')
    return parts


def _line(i: int, name: str, runs: list[list[Point]], across: _Axis, up: _Axis, xlabel: str) -> list[str]:
    parts, many = [], sum(map(len, runs)) > MOST_MARKS
    for run in runs:
        if len(run) > 1:
            path = " ".join(f"{across(a):.1f},{up(b):.1f}" for a, b in run)
            parts.append(f'<polyline points="{path}" {_stroke(i)}/>')
        for a, b in run if not many or len(run) == 1 else ():
            tip = f"<title>{escape(name)}, {escape(xlabel)} {a:g}: {b:.6g}</title>"
            parts.append(f'<path class="mark" transform="translate({across(a):.1f} {up(b):.1f})" {_mark(i)}>{tip}</path>')
    return parts


def _legend(names: list[str]) -> tuple[list[str], int]:
    """The legend under the title, and where the chart may begin."""
    parts, left, y = [], float(EDGE), HEAD
    for i, name in enumerate(names):
        length = 34 + LETTER * len(name)
        if left > EDGE and left + length > WIDTH:
            left, y = float(EDGE), y + LINE
        parts.append(f'<path d="M{left:.0f},{y}h24" {_stroke(i)}/><path transform="translate({left + 12:.0f} {y})" {_mark(i)}/>')
        parts.append(f'<text x="{left + 29:.0f}" y="{y + 4}">{escape(name)}</text>')
        left += length + 6
    return parts, y + 18


def _colour(i: int) -> str:
    return f"var(--series-{i % len(COLOURS)}, {COLOURS[i % len(COLOURS)]})"


def _mark(i: int) -> str:
    return f'd="{MARKS[i % len(MARKS)]}" style="fill: {_colour(i)}"'


def _stroke(i: int) -> str:
    return f'fill="none" stroke-width="2" stroke-dasharray="{DASHES[i % len(DASHES)]}" style="stroke: {_colour(i)}"'
