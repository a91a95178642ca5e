"""The variables that make the next crash explainable, from the rules that ask for them."""

from __future__ import annotations

from correlator.preflight.rules import load_rules


def exports() -> str:
    """Lines for a launch script: each ``export`` that a log rule asks for, with its reason."""
    lines: dict[str, str] = {}
    for rule in load_rules():
        if rule.logs:
            for line in rule.paste:
                if line.startswith("export "):
                    lines.setdefault(line, rule.title)
    return "".join(f"# {why}\n{line}\n" for line, why in lines.items())
