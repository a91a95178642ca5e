"""Draws the pictures of the README from the shipped cases: run it after a change to the report."""

from pathlib import Path

import correlator
from correlator.graph_svg import draw_svg
from correlator.report.text import export_svg

HERE = Path(__file__).parent
CASE = HERE.parent / "fixtures" / "cases" / "gpu-off-the-bus" / "logs"


def main() -> None:
    """Writes verdict.svg (the terminal report) and cascade.svg (the causal graph)."""
    found = correlator.diagnose(CASE)
    export_svg(found.document, HERE / "verdict.svg", found.neighbourhood, width=100, title="correlator diagnose logs/")
    (HERE / "cascade.svg").write_bytes(draw_svg(found.graph))


if __name__ == "__main__":
    main()
