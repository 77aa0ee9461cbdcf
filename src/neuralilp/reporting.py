"""What rules rest on: held-out examples, how often each rule is tight, and examples that contradict them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from torch import Tensor

from neuralilp.distill.text import rows_of
from neuralilp.evidence import tie
from neuralilp.learning import Learnt
from neuralilp.program import IntegerProgram
from neuralilp.solving import solve

MOST_SOLVED = 500
"""Examples that are solved again, to see whether a cheaper solution satisfies the rules."""
MOST_LISTED = 20
"""Contradictions that are printed."""


@dataclasses.dataclass(frozen=True)
class Rule:
    text: str
    tight: float
    """The share of the solutions that the rule just lets through."""
    evidence: float
    """How many solutions would break it, were variables independent; infinite for equalities."""


@dataclasses.dataclass(frozen=True)
class Contradiction:
    """An example that does not fit the learnt program."""

    row: int
    reason: str


@dataclasses.dataclass(frozen=True)
class Report:
    examples: int
    held_out: Mapping[str, float]
    """``examples``, ``accuracy`` (solved exactly so) and ``feasible`` (their solutions satisfy the rules), by rules
    that were learnt without them."""
    tried: Mapping[str, float]
    """Held-out figures by the number of suggested rows, and by whether examples in doubt were left out."""
    rules: tuple[Rule, ...]
    contradictions: tuple[Contradiction, ...]
    unexplained: int
    """Points that cannot be feasible by the costs, near the examples, that the rules let through."""
    is_settled: bool
    """Half of the examples have the same equalities in common."""
    seconds: float

    def lines(self) -> list[str]:
        lines = [f"learnt from {self.examples} examples in {self.seconds:.1f} s"]
        if self.held_out:
            told = f"{self.held_out['feasible']:.1%} satisfy the rules"
            if "accuracy" in self.held_out:
                told = f"{self.held_out['accuracy']:.1%} solved exactly, {told}"
            lines.append(f"held out, {self.held_out['examples']:.0f} examples: {told}")
        if not self.is_settled:
            lines.append("too few examples to tell which equalities hold")
        if self.unexplained:
            lines.append(f"{self.unexplained} points near the examples cannot be feasible, yet satisfy the rules")
        if self.contradictions:
            lines.append(f"{len(self.contradictions)} examples contradict the rules:")
            lines += [f"  row {each.row}: {each.reason}" for each in self.contradictions[:MOST_LISTED]]
            if len(self.contradictions) > MOST_LISTED:
                lines.append(f"  ... and {len(self.contradictions) - MOST_LISTED} more")
        return lines


def report_of(
    learnt: Learnt,
    program: IntegerProgram,
    solutions: Tensor,
    costs: Tensor | None,
    held_out: Mapping[str, float],
    tried: Mapping[str, float],
    names: Sequence[str],
    seconds: float,
    solve_seconds: float,
) -> Report:
    return Report(
        examples=len(solutions),
        held_out=dict(held_out),
        tried=dict(tried),
        rules=tuple(_rules(learnt, solutions, names)),
        contradictions=tuple(_contradictions(learnt, program, solutions, costs, solve_seconds)),
        unexplained=learnt.unexplained,
        is_settled=learnt.is_settled,
        seconds=round(seconds, 3),
    )


def _rules(learnt: Learnt, solutions: Tensor, names: Sequence[str]) -> list[Rule]:
    found, evidence = [], learnt.evidence.tolist()
    for block in (learnt.rules.equalities, learnt.rules.inequalities, learnt.rules.unexplained_inequalities):
        tight = (block.values(solutions).abs() < 1e-6).double().mean(0).tolist()
        for row, share in zip(rows_of(block), tight, strict=True):
            found.append(Rule(row.text(names), share, float("inf") if block.is_equality else evidence.pop(0)))
    return found


def _contradictions(
    learnt: Learnt, program: IntegerProgram, solutions: Tensor, costs: Tensor | None, solve_seconds: float
) -> list[Contradiction]:
    """Solutions outside the rules, and those that are not the cheapest inside."""
    found: dict[int, str] = {}
    for row in (~program.is_feasible(solutions)).nonzero().flatten().tolist():
        found[row] = "its solution breaks the rules"
    if costs is not None:
        looked_at = [row for row in (~learnt.kept).nonzero().flatten().tolist() if row not in found]
        others = [row for row in range(len(solutions)) if row not in found and row not in set(looked_at)]
        looked_at += others[: max(MOST_SOLVED - len(looked_at), 0)]
        if looked_at:
            own = dataclasses.replace(program, cost=costs[looked_at])
            best = solve(own, time_limit=solve_seconds).objective
            cheaper = best < own.objective(solutions[looked_at]) - tie(costs[looked_at], solutions[looked_at])
            for place in cheaper.nonzero().flatten().tolist():
                found[looked_at[place]] = "another solution is cheaper and satisfies the rules"
    return [Contradiction(row, found[row]) for row in sorted(found)]


def as_facts(report: Report) -> dict[str, object]:
    """For JSON: infinite evidence is null."""
    facts = dataclasses.asdict(report)
    for rule in facts["rules"]:
        rule["evidence"] = None if rule["evidence"] == float("inf") else rule["evidence"]
    return facts


def of_facts(facts: Mapping[str, object]) -> Report:
    """What :func:`as_facts` gave."""
    own = dict(facts)
    rules = [dict(rule) for rule in own["rules"]]  # type: ignore[attr-defined]
    own["rules"] = tuple(
        Rule(**{**rule, "evidence": float("inf") if rule["evidence"] is None else rule["evidence"]}) for rule in rules
    )
    own["contradictions"] = tuple(Contradiction(**each) for each in own["contradictions"])  # type: ignore[attr-defined]
    return Report(**own)  # type: ignore[arg-type]
