"""What examples prove about each other: wrong labels, and valid cuts."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import torch
from torch import Tensor

from neuralilp.blocks import Bounds, ConstraintBlock
from neuralilp.errors import ShapeError
from neuralilp.evidence import consistent, valid_cuts
from neuralilp.program import IntegerProgram
from neuralilp.solving import solve


def examples(count: int = 40, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Costs with their optima over: at most 2 of 5."""
    cost, solution = _examples(count, seed)
    return cost.clone(), solution.clone()


@functools.cache
def _examples(count: int, seed: int) -> tuple[Tensor, Tensor]:
    cost = torch.rand(count, 5, generator=torch.Generator().manual_seed(seed)) * 2 - 1
    return cost, solve(program(cost)).z.float()


def program(cost: Tensor, blocks: bool = True) -> IntegerProgram:
    rows = (ConstraintBlock(-torch.ones(1, 5), torch.tensor([2.0])),) if blocks else ()
    return IntegerProgram(cost, Bounds(torch.zeros(5), torch.ones(5)), rows)


def test_right_labels_are_all_kept() -> None:
    assert consistent(*examples()).all()


def test_a_label_that_breaks_the_constraints_goes() -> None:
    cost, solution = examples()
    cost[7] = -cost[7].abs()
    solution[7] = 1
    keep = consistent(cost, solution)
    assert keep.logical_not().nonzero().flatten().tolist() == [7]


def test_a_label_that_is_not_optimal_goes() -> None:
    cost, solution = examples()
    cost[3] = torch.tensor([-1.0, -1.0, 1.0, 1.0, 1.0])
    solution[3] = torch.tensor([0.0, 0.0, 1.0, 1.0, 0.0])
    keep = consistent(cost, solution)
    assert keep.logical_not().nonzero().flatten().tolist() == [3]


def test_several_wrong_labels_go_and_no_others() -> None:
    # Wrong ones contradict right ones on both sides; that must not take the right ones along.
    cost, solution = examples(200)
    broken, worse = [5, 80, 150], [20, 33]
    solution[broken] = 1
    cost[broken] = -cost[broken].abs()
    for i in worse:
        assert (cost[i] < 0).sum() > 0
        solution[i] = (cost[i] == cost[i].max()).float()
    keep = consistent(cost, solution)
    assert keep.logical_not().nonzero().flatten().tolist() == sorted(broken + worse)


def test_of_a_lone_pair_that_contradicts_both_go() -> None:
    # For the first cost the second solution is cheaper: the first is not optimal, or the second is not feasible.
    cost = torch.tensor([[-1.0, 0.0], [0.0, -1.0], [1.0, 1.0]])
    solution = torch.tensor([[0.0, 1.0], [1.0, 1.0], [0.0, 0.0]])
    for order in ([0, 1, 2], [1, 0, 2]):
        assert consistent(cost[order], solution[order]).tolist() == [False, False, True]


def test_equally_good_solutions_do_not_contradict() -> None:
    # All ways to take two of five cost the same within 1.5e-5: more than a solver's tolerance, less than the
    # resolution 1e-5 * sum(|c|) = 4.5e-5 at which labels are believed.
    cost = torch.full((3, 5), -0.9) * torch.tensor([1.0, 1 + 4e-6, 1.0, 1 - 4e-6, 1.0])
    solution = torch.zeros(3, 5)
    for row, taken in zip(solution, ((3, 4), (0, 1), (1, 3)), strict=True):
        row[list(taken)] = 1
    assert consistent(cost, solution).all()
    cuts = valid_cuts(cost, solution)
    assert len(cuts) == 3
    assert all(len(cuts(z)[1]) == 0 for z in solution.double().numpy())


def test_a_single_example_proves_nothing_wrong() -> None:
    assert consistent(*(part[:1] for part in examples())).tolist() == [True]


def test_cuts_are_the_examples_own_rows() -> None:
    # c = (1, -1) with optimum (0, 1): no feasible point costs less than -1, so (0, 2) is infeasible and (1, 2) is not.
    cuts = valid_cuts(torch.tensor([[1.0, -1.0]]), torch.tensor([[0.0, 1.0]]))
    a, b = cuts(torch.tensor([0.0, 2.0]).double().numpy())
    assert a.tolist() == [[1, -1]]
    assert b.tolist() == pytest.approx([1], abs=1e-4)
    assert b[0] >= 1
    assert len(cuts(torch.tensor([1.0, 2.0]).double().numpy())[1]) == 0


def test_the_worst_cuts_come_first_and_only_so_many() -> None:
    cost, solution = examples()
    z = torch.ones(5).double().numpy()
    all_violated = valid_cuts(cost, solution, max_rows=None)(z)
    a, b = valid_cuts(cost, solution, max_rows=3)(z)
    assert len(all_violated[1]) > len(b) == 3
    distances = sorted((all_violated[0] @ z + all_violated[1]) / np.linalg.norm(all_violated[0], axis=1))
    assert sorted((a @ z + b) / np.linalg.norm(a, axis=1)) == distances[:3]


def test_cuts_alone_stand_in_for_the_constraints() -> None:
    cuts = valid_cuts(*examples(400))
    cost, solution = examples(30, seed=1)
    without = solve(program(cost, blocks=False)).z
    with_cuts = solve(program(cost, blocks=False), cuts=cuts).z
    assert (without != solution).any(-1).float().mean() > 0.2
    assert (with_cuts == solution).all(-1).float().mean() > 0.9


def test_cuts_never_cut_off_a_true_solution() -> None:
    cuts = valid_cuts(*examples(400))
    _, solution = examples(30, seed=1)
    for z in solution.double().numpy():
        assert len(cuts(z)[1]) == 0


def test_a_wrong_label_gives_no_cut() -> None:
    cost, solution = examples()
    cost[3] = torch.tensor([-1.0, -1.0, 1.0, 1.0, 1.0])
    solution[3] = torch.tensor([0.0, 0.0, 1.0, 1.0, 0.0])
    assert len(valid_cuts(cost, solution)) == len(cost) - 1


@pytest.mark.parametrize(("cost", "solution"), [((3, 2), (3, 3)), ((0, 2), (0, 2)), ((2,), (2,))])
def test_shapes_are_checked(cost: tuple[int, ...], solution: tuple[int, ...]) -> None:
    with pytest.raises((ShapeError, TypeError), match=r"cost|shape"):
        consistent(torch.zeros(cost), torch.zeros(solution))
