"""A picture of boxes, arrows and texts at given places, as an SVG that reads well on light and on dark pages.

Colours are classes: a style in the SVG gives each two values, chosen by `prefers-color-scheme`. The background is
transparent. Nothing outside the file is needed to show it, and the same calls give the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from xml.sax.saxutils import escape, quoteattr

COLOURS = {  # kind of box: fill and stroke on light, fill and stroke on dark
    "plain": ("#f2f4f8", "#8592a6", "#2b313c", "#8a97ab"),
    "airflow": ("#e1f0fb", "#2b7bb9", "#16334a", "#5cb0ea"),
    "spark": ("#fdeedd", "#cc7a22", "#46301a", "#e8a05a"),
    "rust": ("#f8e0d6", "#b5532a", "#4b2a1d", "#e58a63"),
    "store": ("#e2f4e6", "#358a49", "#1b3a25", "#67b97a"),
    "driver": ("#e8e8fc", "#5959cf", "#2a2a56", "#9c9cf2"),
    "bad": ("#fde5e5", "#cc3333", "#4d2020", "#f28b8b"),
}
_LIGHT = {"ink": "#1c2632", "soft": "#4d5b6c"}
_DARK = {"ink": "#e9eef5", "soft": "#b0bccb"}
_FONT = 'font-family="-apple-system, Segoe UI, Roboto, Helvetica, Arial, sans-serif"'
_MONO = 'font-family="SFMono-Regular, Menlo, Consolas, Liberation Mono, monospace"'
LINE = 1.32
"""Height of a line of text, as a multiple of its size."""


class Picture:
    """A canvas of `width` by `height`; a line of size 14 is the normal text."""

    def __init__(self, width: int, height: int, title: str) -> None:
        self.width, self.height, self.title = width, height, title
        self._parts: list[str] = []

    def box(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        text: str = "",
        kind: str = "plain",
        *,
        size: int = 14,
        dashed: bool = False,
        heading: bool = True,
        top: bool = False,
    ) -> None:
        """A box with its text in the middle, or at the `top`; the first line is bold if it is a `heading`."""
        dash = ' stroke-dasharray="5 4"' if dashed else ""
        self._parts.append(
            f'<rect class="{kind}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" '
            f'rx="{min(7, width / 5):g}"{dash}/>'
        )
        lines = text.split("\n") if text else []
        first = y + (8 + size if top else height / 2 - (len(lines) - 1) * size * LINE / 2 + size * 0.35)
        for number, line in enumerate(lines):
            bold = heading and number == 0
            self.text(x + width / 2, first + number * size * LINE, line, "middle", size=size, bold=bold)

    def text(
        self,
        x: float,
        y: float,
        text: str,
        anchor: str = "start",
        *,
        size: int = 14,
        bold: bool = False,
        soft: bool = False,
        mono: bool = False,
        kind: str | None = None,
    ) -> None:
        """Lines of text; `y` is the baseline of the first. `kind` colours it like the border of such a box."""
        colour = f"{kind}-text" if kind else ("soft" if soft else "ink")
        weight = ' font-weight="600"' if bold else ""
        font = f" {_MONO}" if mono else ""
        for number, line in enumerate(text.split("\n")):
            self._parts.append(
                f'<text class="{colour}" x="{x:g}" y="{y + number * size * LINE:g}" text-anchor="{anchor}" '
                f'font-size="{size}"{weight}{font} xml:space="preserve">{escape(line)}</text>'
            )

    def arrow(self, points: Sequence[tuple[float, float]], kind: str = "soft", *, both: bool = False) -> None:
        """A line through the points with a head at its end, or at both ends."""
        self.line(points, kind, head=True, tail=both)

    def line(
        self,
        points: Sequence[tuple[float, float]],
        kind: str = "soft",
        *,
        head: bool = False,
        tail: bool = False,
        dashed: bool = False,
        width: float = 1.6,
    ) -> None:
        """A line through the points."""
        path = " ".join(f"{x:g},{y:g}" for x, y in points)
        dash = ' stroke-dasharray="5 4"' if dashed else ""
        ends = (' marker-end="url(#head-KIND)"' if head else "") + (' marker-start="url(#head-KIND)"' if tail else "")
        ends = ends.replace("KIND", kind)
        self._parts.append(f'<polyline class="{kind}-line" points="{path}" stroke-width="{width:g}"{dash}{ends}/>')

    def dot(self, x: float, y: float, kind: str, radius: float = 6) -> None:
        """A filled dot."""
        self._parts.append(f'<circle class="{kind}" cx="{x:g}" cy="{y:g}" r="{radius:g}"/>')

    def cross(self, x: float, y: float, kind: str = "bad", radius: float = 6) -> None:
        """A cross: something ends here."""
        for step in (1, -1):
            self.line([(x - radius, y - radius * step), (x + radius, y + radius * step)], kind, width=2.6)

    def svg(self, source: str) -> str:
        """The picture as text; `source` is the checksum of what it was drawn from."""
        used = "".join(self._parts)
        heads = "".join(
            f'<marker id="head-{kind}" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" '
            f'orient="auto-start-reverse"><path class="{kind}-head" d="M0,0.8 L9.5,5 L0,9.2 z"/></marker>'
            for kind in [*COLOURS, "soft"]
            if f"#head-{kind})" in used
        )
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" '
            f'width="{self.width}" height="{self.height}" role="img" aria-label={quoteattr(self.title)} '
            f'data-source="{source}" {_FONT}>\n<title>{escape(self.title)}</title>\n'
            f"<style>{_style()}</style>\n<defs>{heads}</defs>\n" + "\n".join(self._parts) + "\n</svg>\n"
        )


def _style() -> str:
    return f"{_rules(_LIGHT, 0)}@media (prefers-color-scheme: dark){{{_rules(_DARK, 2)}}}"


def _rules(inks: dict[str, str], first: int) -> str:
    rules = [f".{name}{{fill:{colour}}}" for name, colour in inks.items()]
    rules.append(f".soft-line{{stroke:{inks['soft']};fill:none}}.soft-head{{fill:{inks['soft']}}}")
    for kind, colours in COLOURS.items():
        fill, stroke = colours[first : first + 2]
        rules.append(f".{kind}{{fill:{fill};stroke:{stroke};stroke-width:1.4}}")
        rules.append(f".{kind}-line{{stroke:{stroke};fill:none}}.{kind}-head,.{kind}-text{{fill:{stroke}}}")
    return "".join(rules)
