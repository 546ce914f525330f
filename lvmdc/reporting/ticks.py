"""Where the ticks of an axis stand, and what is written at them."""

import math


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
