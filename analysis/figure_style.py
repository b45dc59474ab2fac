"""How figures look and are saved: colour-blind safe, the same bytes for the same numbers."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe & Ito (2008), https://jfly.uni-koeln.de/color/: told apart with any colour vision.
PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#000000")
HATCHES = ("", "///", "...", "xxx", "\\\\\\")
INK = "#1d2126"
QUIET = "#6b747e"
PNG_DPI = 160


@contextmanager
def report_style() -> Iterator[None]:
    """Set matplotlib's parameters for the length of the block; nothing global is left changed."""
    import matplotlib

    parameters: dict[str, Any] = {
        "svg.hashsalt": "learning-to-route",
        "svg.fonttype": "path",
        "font.family": "DejaVu Sans",  # ships with matplotlib: the same on every machine
        "font.size": 9,
        "axes.titlesize": 10,
        "axes.titlelocation": "left",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.edgecolor": QUIET,
        "axes.labelcolor": INK,
        "text.color": INK,
        "xtick.color": INK,
        "ytick.color": INK,
        "text.parse_math": False,  # a dollar in a dataset's name is a dollar
        "legend.frameon": False,
        "hatch.linewidth": 0.6,
    }
    with matplotlib.rc_context(parameters), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield


def new_figure(width_inches: float, height_inches: float) -> Figure:
    """Return an empty figure with its own Agg canvas; pyplot's state isn't touched."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width_inches, height_inches), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def save(figure: Figure, folder: Path, name: str) -> None:
    """Write ``name.png`` and ``name.svg`` without dates or versions."""
    figure.savefig(folder / f"{name}.png", dpi=PNG_DPI, metadata={"Software": None})
    figure.set_layout_engine("none")  # laid out once; the SVG takes the same places
    no_dates = {"Date": None, "Creator": None}
    figure.savefig(folder / f"{name}.svg", format="svg", metadata=no_dates)


def arm_styles(arms: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Arm → (colour, hatch): distinct for 40 arms, the first eight by colour alone."""
    n = len(PALETTE)
    return {arm: (PALETTE[i % n], HATCHES[(i // n) % len(HATCHES)]) for i, arm in enumerate(arms)}


def text_colour(background: str) -> str:
    """Return black or white, whichever reads better on ``background`` (WCAG luminance)."""
    from matplotlib.colors import to_rgb

    linear = [
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(background)
    ]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return "black" if luminance > 0.179 else "white"
