"""Constraint modules: over-parameterised, known, from a network; and the box."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from neuralilp.blocks import Bounds, ConstraintBlock
from neuralilp.constraints import Box, KnownConstraints, LearnableConstraints, NetworkConstraints
from neuralilp.errors import InputError, ShapeError
from neuralilp.program import IntegerProgram

FREE = Bounds(torch.full((2,), -math.inf), torch.full((2,), math.inf))


def distances(block: ConstraintBlock, z: Tensor) -> Tensor:
    n = z.shape[-1]
    free = Bounds(torch.full((n,), -math.inf), torch.full((n,), math.inf))
    return IntegerProgram(torch.ones(n), free, (block,)).signed_distance(z)


def set_rows(
    module: LearnableConstraints, a: list[list[float]], radius: list[float], origin: list[list[float]]
) -> None:
    with torch.no_grad():
        module.a.copy_(torch.tensor(a))
        module.radius.copy_(torch.tensor(radius))
        module.origin.copy_(torch.tensor(origin))


def test_golden_over_parameterisation() -> None:
    """a = (3, 4), o = (1, 1), r = 2 at z = (4, 5): d = (3, 4)·(3, 4)/5 + 2 = 7; at z = o the distance is the radius.

    The same hyperplane with a tenfold a has the same distances: the radius is a distance.
    """
    module = LearnableConstraints(2, 2)
    set_rows(module, [[3, 4], [30, 40]], [2, 2], [[1, 1], [1, 1]])
    block = module()
    assert distances(block, torch.tensor([4.0, 5.0])).tolist() == pytest.approx([7, 7])
    assert distances(block, torch.tensor([1.0, 1.0])).tolist() == pytest.approx([2, 2])
    assert block.is_learned
    assert block.slack is None
    assert block.a.tolist()[0] == pytest.approx([0.6, 0.8])


def test_over_parameterisation_everywhere(generator: torch.Generator) -> None:
    """d(z) = a·(z - o)/|a| + r for random rows, and its gradient goes to a, o and r."""
    module = LearnableConstraints(5, 3, start="gaussian", origin=(-2.0, 2.0), generator=generator).double()
    with torch.no_grad():
        module.radius.normal_(generator=generator)
    z = torch.randn(7, 3, generator=generator, dtype=torch.float64)
    block = module()
    values = z @ block.a.mT + block.b
    for i in range(5):
        a, o, r = module.a[i], module.origin[i], module.radius[i]
        expected = (z - o) @ a / a.norm() + r
        torch.testing.assert_close(values[:, i], expected)
        mine = torch.autograd.grad(values[:, i].sum(), [module.a, module.origin, module.radius], retain_graph=True)
        naive = torch.autograd.grad(expected.sum(), [module.a, module.origin, module.radius])
        for slope, its in zip(mine, naive, strict=True):
            torch.testing.assert_close(slope, its)


def test_starts() -> None:
    """U(-0.5, 0.5) and standard Gaussian, radius as given, origins between the two ends; five standard deviations."""
    count, n = 200, 50  # 10,000 entries
    generator = torch.Generator().manual_seed(3)
    low, high = torch.zeros(n), torch.linspace(1, 5, n)
    uniform = LearnableConstraints(count, n, radius=0.7, origin=(low, high), generator=generator)
    assert uniform.a.abs().max() <= 0.5
    assert abs(uniform.a.mean().item()) < 5 * math.sqrt(1 / 12 / 1e4)
    assert uniform.a.var().item() == pytest.approx(1 / 12, rel=0.05)
    assert uniform.radius.unique().tolist() == pytest.approx([0.7])
    assert bool(((uniform.origin >= low) & (uniform.origin <= high)).all())
    assert (uniform.origin / high).mean().item() == pytest.approx(0.5, abs=5 * math.sqrt(1 / 12 / 1e4))
    gaussian = LearnableConstraints(count, n, start="gaussian", generator=generator)
    assert gaussian.a.abs().max() > 2
    assert gaussian.a.var().item() == pytest.approx(1, abs=5 * math.sqrt(2 / 1e4))
    assert not gaussian.origin.any()


@pytest.mark.parametrize("start", ["uniform", "gaussian"])
def test_start_comes_from_the_generator(start: str) -> None:
    def make(seed: int) -> dict[str, Tensor]:
        torch.manual_seed(torch.seed() % 2**31)  # the global generator plays no part
        generator = torch.Generator().manual_seed(seed)
        return LearnableConstraints(3, 4, start=start, origin=(0.0, 1.0), generator=generator).state_dict()

    first, again, other = make(1), make(1), make(2)
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["a"], other["a"])
    assert not torch.equal(first["origin"], other["origin"])


def test_slack_before_or_after_normalising() -> None:
    """ε = 1 with a = (3, 4): the slack as a distance is 1/5, or 1 where it is one already. At z = o: ±r around it."""
    for slack_is_distance, sigma in ((False, 0.2), (True, 1.0)):
        module = LearnableConstraints(1, 2, slack=1.0, radius=0.05, slack_is_distance=slack_is_distance)
        set_rows(module, [[3, 4]], [0.05], [[1, 1]])
        block = module()
        assert block.is_equality
        assert distances(block, torch.ones(2)).tolist() == pytest.approx([sigma + 0.05, sigma - 0.05])
        assert module.config()["slack_is_distance"] is slack_is_distance
    # ε/|a| shrinks as a grows: its gradient goes to a.
    module = LearnableConstraints(1, 2, slack=1.0)
    slack = module().slack
    assert slack is not None
    assert torch.autograd.grad(slack.sum(), module.a)[0].any()


def test_slack_of_zero_is_an_exact_equality() -> None:
    block = LearnableConstraints(1, 2, slack=0.0)()
    assert block.slack is not None
    assert block.slack.tolist() == [0.0]
    assert block.num_rows == 2


def test_learned_zero_row_is_finite() -> None:
    for slack in (None, 0.1):
        module = LearnableConstraints(1, 3, slack=slack)
        set_rows(module, [[0, 0, 0]], [0.2], [[1, 1, 1]])
        block = module()
        assert distances(block, torch.ones(3)).isfinite().all()
        total = block.a.sum() + block.b.sum() + (0 if block.slack is None else block.slack.sum())
        total.backward()
        assert all(bool(p.grad.isfinite().all()) for p in module.parameters() if p.grad is not None)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_constraints": 0}, "num_constraints and num_variables must be positive, got 0 and 2"),
        ({"num_variables": -1}, "num_constraints and num_variables must be positive, got 3 and -1"),
        ({"slack": -0.1}, "slack must be None or at least 0, got -0.1"),
        ({"slack": math.nan}, "slack must be None or at least 0, got nan"),
        ({"restarts": 0}, "restarts must be None or positive, got 0"),
    ],
)
def test_bad_learnable(arguments: dict[str, float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        LearnableConstraints(**{"num_constraints": 3, "num_variables": 2, **arguments})


def test_restarts() -> None:
    """Blocks with a batch of starts, each drawn by itself; one of them alone gives its own part of the block."""
    many = LearnableConstraints(3, 2, slack=0.1, origin=(-1.0, 1.0), restarts=4)
    block = many()
    assert (block.a.shape, block.b.shape) == ((4, 1, 3, 2), (4, 1, 3))
    assert len({tuple(a.flatten().tolist()) for a in many.a}) == 4
    one = many.restart(2)
    assert one.restarts is None
    torch.testing.assert_close(one().a, block.a[2, 0])
    torch.testing.assert_close(one().b, block.b[2, 0])
    assert block.slack is not None
    torch.testing.assert_close(one().slack, block.slack[2, 0])
    with torch.no_grad():
        one.a.zero_()
    assert bool((many.a[2] != 0).all())


def test_a_restart_is_of_its_kind() -> None:
    many = LearnableConstraints(3, 2, restarts=4).double().eval()
    one = many.restart(0)
    assert one.a.dtype == torch.float64
    assert not one.training


@pytest.mark.parametrize("index", [2, -1])
def test_no_such_restart(index: int) -> None:
    with pytest.raises(InputError, match=f"index must be from 0 to 1, got {index}"):
        LearnableConstraints(1, 2, restarts=2).restart(index)
    with pytest.raises(InputError, match="these constraints have none"):
        LearnableConstraints(1, 2).restart(index)


@pytest.mark.wrong_types
def test_bad_start() -> None:
    with pytest.raises(InputError, match="start must be 'uniform' or 'gaussian', got 'normal'"):
        LearnableConstraints(1, 2, start="normal")


def test_learnable_constraints_from_rows() -> None:
    """3x + 4y - 10, 2 from the origin, and 2y: learnt on from there, with the slack as a distance."""
    a, b = torch.tensor([[3.0, 4.0], [0.0, 2.0]]), torch.tensor([-10.0, 0.0])
    rows = LearnableConstraints.from_rows(a.double(), b.double(), slack=0.1)
    block = rows()
    assert block.is_learned
    assert block.a.dtype == torch.float32
    assert block.a.flatten().tolist() == pytest.approx([0.6, 0.8, 0.0, 1.0])
    assert block.b.tolist() == [-2, 0]
    assert block.slack.tolist() == pytest.approx([0.1, 0.1])
    assert not LearnableConstraints.from_rows(a, b)().is_equality
    assert {name for name, _ in rows.named_parameters()} == {"a", "radius", "origin"}
    again = LearnableConstraints(**rows.config())
    again.load_state_dict(rows.state_dict())
    assert torch.equal(again().slack, block.slack)


@pytest.mark.wrong_types
def test_rows_to_start_from_must_fit() -> None:
    with pytest.raises(ShapeError, match=r"a must be `constr var` and b `constr`, got shapes \(1, 2\) and \(2,\)"):
        LearnableConstraints.from_rows(torch.ones(1, 2), torch.ones(2))


def test_known_constraints() -> None:
    """x + y <= 3 as rows, and as an equality with slack; they are buffers, not parameters, and copies."""
    a = torch.tensor([[-1.0, -1.0]])
    known = KnownConstraints(a, torch.tensor([3.0]))
    block = known()
    assert not block.is_learned
    assert not block.is_equality
    assert distances(block, torch.tensor([1.0, 0.0])).item() == pytest.approx(2 / math.sqrt(2))
    assert list(known.parameters()) == []
    assert set(known.state_dict()) == {"a", "b"}
    a.zero_()
    assert known().a.tolist() == [[-1, -1]]
    equality = KnownConstraints(torch.tensor([[3.0, 4.0]]), torch.tensor([-7.0]), slack=1.0)()
    assert distances(equality, torch.tensor([1.0, 1.0])).tolist() == pytest.approx([0.2, 0.2])


@pytest.mark.wrong_types
def test_known_constraints_from_lists() -> None:
    known = KnownConstraints([[1, 2]], [3], slack=0)
    assert known().a.dtype == torch.float32
    assert known().slack.tolist() == [0.0]
    assert known.config() == {"num_constraints": 1, "num_variables": 2, "slack": 0}


@pytest.mark.parametrize(
    ("a", "b", "message"),
    [
        ([[1.0, 2.0], [0.0, 0.0]], [1.0, 1.0], "every row of a must have a nonzero entry: row 1 has none"),
        ([[1.0, 2.0], [math.nan, 0.0]], [1.0, 1.0], "a must be finite: row 1 is not"),
        ([[1.0, 2.0], [1.0, 0.0]], [1.0, math.inf], "b must be finite: row 1 is not"),
    ],
)
def test_bad_known(a: list[list[float]], b: list[float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        KnownConstraints(torch.tensor(a), torch.tensor(b))


def test_bad_known_slack() -> None:
    with pytest.raises(InputError, match="slack must be None or at least 0, got -1"):
        KnownConstraints(torch.ones(1, 2), torch.ones(1), slack=-1.0)


@pytest.mark.wrong_types
@pytest.mark.parametrize(("a", "b"), [((2,), (2,)), ((1, 2), (2,)), ((3, 1, 2), (1,))])
def test_known_shapes(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    with pytest.raises(ShapeError, match=r"a must be `constr var` and b `constr`, got shapes"):
        KnownConstraints(torch.ones(a), torch.ones(b))


class Rows(nn.Module):
    """A network whose output is A, or the pair (A, b)."""

    def __init__(self, with_offset: bool) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 2 * 4)
        self.offset = nn.Linear(3, 2) if with_offset else None

    def forward(self, x: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        a = self.linear(x).unflatten(-1, (2, 4))
        return a if self.offset is None else (a, self.offset(x))


def test_network_constraints_with_fixed_offset() -> None:
    """The knapsack of the paper: A(x) from a network, b = 1."""
    network = Rows(False)
    module = NetworkConstraints(network, offset=1.0)
    x = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
    block = module(x)
    assert torch.equal(block.a, network(x))
    assert block.b.tolist() == [[1.0, 1.0]] * 5
    assert block.is_learned
    assert block.batch_shape() == (5,)
    z = torch.ones(5, 4)
    expected = (block.a.sum(-1) + 1) / block.a.norm(dim=-1)
    torch.testing.assert_close(distances(block, z), expected)
    assert module.config() == {"offset": 1.0, "slack": None}


def test_network_constraints_with_their_own_offset() -> None:
    network = Rows(True)
    x = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
    block = NetworkConstraints(network, slack=0.25)(x)
    a, b = network(x)
    assert torch.equal(block.a, a)
    assert torch.equal(block.b, b)
    assert block.slack is not None
    assert block.slack.unique().tolist() == [0.25]
    with pytest.raises(InputError, match=r"network must return the pair \(a, b\) where offset is None, got Tensor"):
        NetworkConstraints(Rows(False))(x)
    with pytest.raises(InputError, match="slack must be None or at least 0, got -1"):
        NetworkConstraints(network, slack=-1.0)


def test_box() -> None:
    box = Box(0, 1, 3)
    assert box.num_variables == 3
    assert (box().lower.tolist(), box().upper.tolist()) == ([0, 0, 0], [1, 1, 1])
    assert box().is_binary
    assert box() is box()  # made once
    mixed = Box(torch.tensor([0.0, -math.inf]), 4.0)
    assert mixed.num_variables == 2
    assert mixed().upper.tolist() == [4, 4]
    assert not mixed().is_finite
    assert list(box.parameters()) == []
    double = Box(0, 1, 3).double()
    assert double().lower.dtype == torch.float64


def test_box_knows_what_was_loaded() -> None:
    """A checkpoint brings other bounds: whatever is derived from them must follow."""
    box = Box(0, 1, 3)
    assert box().is_binary
    box.load_state_dict(Box(0, 5, 3).state_dict())
    assert box().upper.tolist() == [5, 5, 5]
    assert not box().is_binary
    box.load_state_dict(Box(-math.inf, 5, 3).state_dict())
    assert not box().is_finite


@pytest.mark.parametrize(
    ("lower", "upper", "n", "message"),
    [
        (0.0, 1.0, None, "num_variables must be given where lower and upper are plain numbers"),
        (2.0, 1.0, 3, r"lower must not be above upper"),
        (math.nan, 1.0, 3, r"lower must not be above upper"),
        (0.0, 1.0, 0, "num_variables must be positive, got 0"),
        (torch.zeros(3), torch.ones(2), None, "lower and upper"),
        (torch.zeros(3), torch.ones(3), 5, "num_variables"),
    ],
)
def test_bad_box(lower: float | Tensor, upper: float | Tensor, n: int | None, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Box(lower, upper, n)


def test_offsets_fixed_row_by_row() -> None:
    class Rows(torch.nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.unsqueeze(-2).expand(-1, 2, -1)

    block = NetworkConstraints(Rows(), offset=[1.0, 2.0])(torch.ones(4, 3))
    assert block.b.tolist() == [[1.0, 2.0]] * 4
    with pytest.raises(ShapeError, match="offset must be a number or have 2 entries, got 3"):
        NetworkConstraints(Rows(), offset=[1.0, 2.0, 3.0])(torch.ones(4, 3))


def test_rows_that_touch_the_solutions() -> None:
    """x + y <= 3 stands 1/√2 off the farther of (0, 1) and (2, 0), and x >= 1 cuts (0, 1) off: both come to touch."""
    rows = LearnableConstraints.from_rows(torch.tensor([[-1.0, -1.0], [1.0, 0.0]]), torch.tensor([3.0, -1.0]))
    solution = torch.tensor([[0.0, 1.0], [2.0, 0.0]])
    moved = rows.touching(solution)
    assert moved().a.equal(rows().a)
    assert moved().b.tolist() == pytest.approx([math.sqrt(2), 0.0], abs=2e-5)
    assert moved().room(solution).amin(0).tolist() == pytest.approx([0.0, 0.0], abs=2e-5)
    assert (moved().room(solution) > 0).all()
    assert rows().b.tolist() == pytest.approx([3 / math.sqrt(2), -1.0])  # the rows themselves stay


@pytest.mark.parametrize("options", [{"slack": 0.1}, {"restarts": 2}])
def test_only_inequalities_touch(options: dict[str, float]) -> None:
    with pytest.raises(InputError, match="touching must be called on inequalities without restarts"):
        LearnableConstraints(2, 3, **options).touching(torch.zeros(1, 3))  # type: ignore[arg-type]


@pytest.mark.parametrize("shape", [(0, 2), (4, 3)])
def test_solutions_to_touch_must_fit(shape: tuple[int, ...]) -> None:
    with pytest.raises(ShapeError, match=r"solution must be `example 2`, got \("):
        LearnableConstraints(1, 2).touching(torch.zeros(shape))
