"""SATNet: the relaxation against brute force, its gradients against differences, and learning Latin squares."""

from __future__ import annotations

import itertools

import pytest
import torch
from latin import CELLS, DIGITS, accuracy_after, latin_puzzles
from torch import Tensor, nn
from torch.nn import functional

from neuralilp.baselines import mixing
from neuralilp.baselines.mixing import mix
from neuralilp.baselines.satnet import SATNet, SATNetStep
from neuralilp.errors import InputError, ShapeError

N = CELLS * DIGITS


def unit(*shape: int, generator: torch.Generator) -> Tensor:
    return functional.normalize(torch.randn(*shape, dtype=torch.float64, generator=generator), dim=-1)


def naive(s: Tensor, v: Tensor, is_free: Tensor, sweeps: int) -> Tensor:
    """One example and one variable at a time, by the formula."""
    v = v.clone()
    for _, b in itertools.product(range(sweeps), range(v.shape[1])):
        for i in is_free[:, b].nonzero().flatten().tolist():
            g = sum(s[:, i] @ s[:, j] * v[j, b] for j in range(len(v)) if j != i)
            v[i, b] = -g / g.norm()
    return v


@pytest.mark.parametrize("block", [1, 3, 64])
def test_sweeps_are_those_of_the_formula(
    block: int, generator: torch.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mixing, "BLOCK", block)
    s = torch.randn(5, 8, dtype=torch.float64, generator=generator)
    start = unit(8, 3, 5, generator=generator)
    is_free = torch.rand(8, 3, generator=generator) < 0.7
    v = mix(s, start, is_free, sweeps=3, tolerance=0.0)
    torch.testing.assert_close(v, naive(s, start, is_free, 3))
    assert torch.equal(v[~is_free], start[~is_free])


def test_a_variable_without_a_clause_stays(generator: torch.Generator) -> None:
    s = torch.randn(5, 4, dtype=torch.float64, generator=generator)
    s[:, 2] = 0
    start = unit(4, 1, 4, generator=generator)
    s.requires_grad_()
    v = mix(s, start, torch.tensor([[False], [True], [True], [True]]))
    assert torch.equal(v[2], start[2])
    v.sum().backward()
    assert s.grad is not None
    assert s.grad.isfinite().all()


def test_max_2_sat(generator: torch.Generator) -> None:
    """The row (-1, s₁, s₂) of a clause has |V s|² = 1 if true and 9 if false, for vectors ±v_0.

    So (|S V|² - clauses)/8 counts the false ones, and over all unit vectors it is a lower bound on the fewest. Random
    hyperplanes then satisfy, in expectation, 0.878 of what the relaxation thinks: the best of many, here, the most.
    """
    variables, clauses = 8, 60
    s = torch.zeros(clauses, 1 + variables, dtype=torch.float64)
    s[:, 0] = -1
    for row in s:
        pair = 1 + torch.randperm(variables, generator=generator)[:2]
        row[pair] = torch.randint(2, (2,), generator=generator).double() * 2 - 1
    start = unit(1 + variables, 1, 6, generator=generator)
    is_free = torch.arange(1 + variables).unsqueeze(1) > 0
    v = mix(s, start, is_free, sweeps=500, tolerance=1e-9).squeeze(1)
    torch.testing.assert_close(v.norm(dim=-1), torch.ones(1 + variables, dtype=torch.float64))

    def false_clauses(signs: Tensor) -> Tensor:
        return ((s @ signs.T).square().sum(0) - clauses) / 8

    everything = torch.tensor([(1.0, *p) for p in itertools.product((-1.0, 1.0), repeat=variables)]).double()
    fewest = false_clauses(everything).min()
    relaxed = ((s @ v).square().sum() - clauses) / 8
    assert fewest > 0
    assert -1e-9 < relaxed < fewest + 1e-9
    sides = (torch.randn(200, 6, dtype=torch.float64, generator=generator) @ v.T).sign()
    rounded = false_clauses(sides * sides[:, :1])
    assert rounded.min() == fewest
    assert (clauses - rounded.mean()) > 0.878 * (clauses - relaxed)


@pytest.mark.parametrize("seed", [1, 2])
def test_gradients_are_those_of_the_converged_answer(seed: int) -> None:
    """Central differences in random directions of the clauses and of the given probabilities."""
    generator = torch.Generator().manual_seed(seed)
    model = SATNet(
        4, digits=2, clauses=8, auxiliary=1, sweeps=1500, tolerance=1e-11, damping=0.0, generator=generator
    ).double()
    is_given = torch.tensor([[True, True, False, False], [False, True, False, False]])
    z, weight = torch.rand(2, 2, 4, generator=generator, dtype=torch.float64)
    z.requires_grad_()
    clauses = model.clauses.detach().clone()
    gradients = torch.autograd.grad((model.complete(z, is_given) * weight).sum(), (model.clauses, z))

    def value(shift: tuple[Tensor, Tensor], size: float) -> Tensor:
        model.clauses.data = clauses + size * shift[0]
        return (model.complete(z + size * shift[1], is_given) * weight).sum()

    for part in (0, 1):
        shift = [torch.zeros_like(clauses), torch.zeros_like(z)]
        shift[part] = torch.randn(shift[part].shape, generator=generator, dtype=torch.float64)
        with torch.no_grad():
            difference = (value(tuple(shift), 1e-5) - value(tuple(shift), -1e-5)) / 2e-5
        assert difference.abs() > 0.01
        torch.testing.assert_close((gradients[part] * shift[part]).sum(), difference, rtol=1e-5, atol=1e-7)


def test_given_cells_stay_and_the_others_are_probabilities(generator: torch.Generator) -> None:
    model = SATNet(N, digits=DIGITS, clauses=20, auxiliary=5, generator=generator)
    x = latin_puzzles(generator)[0].x[:6].view(2, 3, N)
    p = model(x)
    is_given = model.given(x)[1]
    assert is_given.view(2, 3, CELLS, DIGITS).all(-1).sum(-1).equal(x.sum(-1).long())
    assert torch.equal(p[is_given], x[is_given])
    assert ((p >= 0) & (p <= 1)).all()
    z = model.predict(x)
    assert z.shape == x.shape
    assert (z.view(2, 3, CELLS, DIGITS).sum(-1) == 1).all()
    assert ((z == x) | ~is_given).all()
    torch.testing.assert_close(model(x[0, 1]), p[0, 1], rtol=0, atol=0.05)  # a batch ends its sweeps together


def test_loss_by_hand() -> None:
    """Without clauses' pull (all zero) each free variable stays at its start: 60° from -v_0 is probability 1/3.

    Cell 0 is given; of cell 1, y* = (1, 0): -(ln 1/3 + ln 2/3)/2, but for the 1e-4 that keeps them from 0 and 1.
    """
    model = SATNet(4, digits=2, clauses=1, auxiliary=0)
    model.clauses.data.zero_()
    model.start[1:] = torch.tensor([-0.5, 0.75**0.5] + [0.0] * (model.start.shape[1] - 2))
    x = torch.tensor([[0.0, 1.0, 0.0, 0.0]])
    loss, terms = SATNetStep(model)(x, torch.tensor([[0.0, 1.0, 1.0, 0.0]]), temperature=1.0)
    assert loss.item() == pytest.approx(0.5 * (1.0986 + 0.4055), abs=2e-4)
    assert terms.cross_entropy == loss
    assert terms.vector_accuracy == 1  # a tie goes to the first digit


def test_images_teach_perception_both_ways(generator: torch.Generator) -> None:
    """Through the answer for the other cells, and directly: y* says what is in the given cells."""
    images = torch.zeros(2, CELLS, 2, 2)
    images[:, :4] = torch.rand(2, 4, 2, 2, generator=generator)
    scores = nn.Sequential(nn.Flatten(2), nn.Linear(4, DIGITS))
    model = SATNet(N, digits=DIGITS, clauses=20, auxiliary=5, perception=scores, generator=generator)
    z, is_given = model.given(images)
    assert torch.equal(is_given, torch.arange(N).expand(2, N) < 4 * DIGITS)
    torch.testing.assert_close(model(images)[is_given], scores(images).softmax(-1).flatten(1)[is_given])
    (model.complete(z, is_given)[~is_given]).sum().backward()
    assert scores[1].weight.grad.any()
    assert model.clauses.grad.any()
    solution = latin_puzzles(generator)[0].solution[:2]
    loss, _ = SATNetStep(model)(images, solution, temperature=1.0)
    everywhere = functional.binary_cross_entropy(model(images), solution)
    assert loss.item() == pytest.approx(everywhere.item(), abs=1e-3)


def test_learns_latin_squares(generator: torch.Generator) -> None:
    model = SATNet(N, digits=DIGITS, clauses=40, auxiliary=8, sweeps=20, generator=generator)
    assert accuracy_after(SATNetStep(model), 30, batch=40, lr=5e-3, generator=generator) > 0.9


def test_the_same_seed_and_the_same_weights_give_the_same_answers(generator: torch.Generator) -> None:
    x = latin_puzzles(generator)[0].x[:3]
    first, second = (
        SATNet(N, digits=DIGITS, clauses=9, auxiliary=2, generator=torch.Generator().manual_seed(3)) for _ in range(2)
    )
    assert torch.equal(first(x), second(x))
    other = SATNet(N, digits=DIGITS, clauses=9, auxiliary=2, generator=generator)
    assert not torch.equal(first(x), other(x))
    other.load_state_dict(first.state_dict())
    assert torch.equal(first(x), other(x))


@pytest.mark.wrong_types
def test_errors() -> None:
    with pytest.raises(InputError, match="num_variables must be a multiple of digits, got 10 and 3"):
        SATNet(10, digits=3, clauses=2, auxiliary=0)
    with pytest.raises(InputError, match="clauses must be positive and auxiliary not negative, got 0 and 0"):
        SATNet(9, digits=3, clauses=0, auxiliary=0)
    model = SATNet(9, digits=3, clauses=2, auxiliary=0)
    with pytest.raises(ShapeError, match=r"x must be `\*batch 9`, got \(2, 8\)"):
        model(torch.zeros(2, 8))
    with pytest.raises(ShapeError, match=r"solution must be \(2, 9\), as x has it, got \(3, 9\)"):
        SATNetStep(model)(torch.zeros(2, 9), torch.zeros(3, 9), temperature=1.0)
    model = SATNet(9, digits=3, clauses=2, auxiliary=0, perception=nn.Identity())
    with pytest.raises(ShapeError, match=r"perception must return `\*batch 3 3`, got \(2, 4, 3\)"):
        model(torch.zeros(2, 4, 3))
