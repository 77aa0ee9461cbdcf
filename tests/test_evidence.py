import pytest
import torch

from neuralilp.blocks import Bounds, ConstraintBlock
from neuralilp.errors import ShapeError
from neuralilp.evidence import consistent, valid_cuts
from neuralilp.program import IntegerProgram
from neuralilp.solving import solve


def examples(count=40, seed=0):
    """Costs with their optima over: at most 2 of 5."""
    cost = torch.rand(count, 5, generator=torch.Generator().manual_seed(seed)) * 2 - 1
    return cost, solve(program(cost)).z.float()


def program(cost, blocks=True):
    rows = (ConstraintBlock(-torch.ones(1, 5), torch.tensor([2.0])),) if blocks else ()
    return IntegerProgram(cost, Bounds(torch.zeros(5), torch.ones(5)), rows)


def test_right_labels_are_all_kept():
    assert consistent(*examples()).all()


def test_a_label_that_breaks_the_constraints_goes():
    cost, solution = examples()
    solution[7] = (cost[7] < 0).float()
    cost[7] = -cost[7].abs()
    solution[7] = 1
    keep = consistent(cost, solution)
    assert keep.logical_not().nonzero().flatten().tolist() == [7]


def test_a_label_that_is_not_optimal_goes():
    cost, solution = examples()
    cost[3] = torch.tensor([-1.0, -1.0, 1.0, 1.0, 1.0])
    solution[3] = torch.tensor([0.0, 0.0, 1.0, 1.0, 0.0])
    keep = consistent(cost, solution)
    assert keep.logical_not().nonzero().flatten().tolist() == [3]


def test_cuts_alone_stand_in_for_the_constraints():
    cuts = valid_cuts(*examples(400))
    cost, solution = examples(30, seed=1)
    without = solve(program(cost, blocks=False)).z
    with_cuts = solve(program(cost, blocks=False), cuts=cuts).z
    assert (without != solution).any(-1).float().mean() > 0.2
    assert (with_cuts == solution).all(-1).float().mean() > 0.9


def test_cuts_never_cut_off_a_true_solution():
    cuts = valid_cuts(*examples(400))
    _, solution = examples(30, seed=1)
    for z in solution.double().numpy():
        assert len(cuts(z)[1]) == 0


def test_a_wrong_label_gives_no_cut():
    cost, solution = examples()
    cost[3] = torch.tensor([-1.0, -1.0, 1.0, 1.0, 1.0])
    solution[3] = torch.tensor([0.0, 0.0, 1.0, 1.0, 0.0])
    assert len(valid_cuts(cost, solution)) == len(cost) - 1


@pytest.mark.parametrize(("cost", "solution"), [((3, 2), (3, 3)), ((0, 2), (0, 2)), ((2,), (2,))])
def test_shapes_are_checked(cost, solution):
    with pytest.raises((ShapeError, TypeError), match=r"cost|shape"):
        consistent(torch.zeros(cost), torch.zeros(solution))
