"""The rules of preflight: each fires on its own examples and keeps quiet on the others; each has a home and a source."""

from __future__ import annotations

import pytest

from correlator.preflight.check import derive
from correlator.preflight.conditions import divisors, parse
from correlator.preflight.model import Finding, Unknown
from correlator.preflight.rules import Rule, check_rule, example_facts, load_rules
from correlator.signatures import by_id

RULES = load_rules()
each_rule = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)


def said(rule: Rule, values: dict[str, object]) -> Finding | Unknown | bool | None:
    facts = example_facts(rule, values)
    derive(facts)
    return check_rule(rule, facts)


def test_ids_are_unique() -> None:
    assert len({rule.id for rule in RULES}) == len(RULES)


@each_rule
def test_it_fires_on_its_examples_and_nowhere_else(rule: Rule) -> None:
    assert rule.fires and rule.quiet
    for values in rule.fires:
        found = said(rule, dict(values))
        assert isinstance(found, Finding), values
        assert "{" not in found.why + found.fix, "a hole was not filled"
        assert "not set" not in found.fix, found.fix
    for values in rule.quiet:
        assert not isinstance(said(rule, dict(values)), Finding), values


@each_rule
def test_its_entry_exists(rule: Rule) -> None:
    assert rule.entry is None or rule.entry in by_id()


@each_rule
def test_an_unknown_value_is_never_a_finding(rule: Rule) -> None:
    """With every value that its first example states unknown, a rule does not decide."""
    values = {name: Unknown(f"${name} is not set") for name in rule.fires[0] if name in rule.names()}
    if values:
        assert not isinstance(said(rule, {**rule.fires[0], **values}), Finding)


def test_a_size_that_is_proposed_fits_the_other_sizes_that_are_known() -> None:
    assert divisors(12, 16, 8) == "1, 2, 4"
    assert divisors(12, None, Unknown("$N is not set")) == "1, 2, 3, 4, 6, 12"
    (rule,) = (rule for rule in RULES if rule.id == "heads-divisible")
    asked = {"num_attention_heads": 12, "tensor_model_parallel_size": 8, "world_size": 16}
    for ranks, sizes in ((16, "1, 2, 4"), (Unknown("$N is not set"), "1, 2, 3, 4, 6, 12")):
        finding = said(rule, {**asked, "world_size": ranks})
        assert isinstance(finding, Finding) and finding.fix == f"TP one of {sizes}"


@each_rule
def test_its_conditions_are_expressions(rule: Rule) -> None:
    for text in (rule.wrong, *rule.let.values()):
        parse(text)
    assert rule.names(), "a rule that looks at nothing"
