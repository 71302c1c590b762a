"""BoundedScale: value, gradient and recovery of every constraint, as the C++ module has them; the projection."""

import copy
import io
import math

import pytest
import torch

import camber

CONSTRAINTS = ["clamp", "sigmoid", "log_clamp", "straight_through", "projected", "none"]
pytestmark = pytest.mark.filterwarnings("ignore:.BoundedScale. raw must lie inside")


def at(scale, raw):
    """(value, gradient) with raw put where no projector would leave it."""
    with torch.no_grad():
        scale.raw.fill_(raw)
    scale.raw.grad = None
    value = scale()
    value.sum().backward()
    return value.item(), scale.raw.grad.item()


@pytest.mark.parametrize("constraint", CONSTRAINTS)
@pytest.mark.parametrize("init", [0.50001, 0.7, 1.0, 2.5, 3.3333333, 4.9, 25.0, 99.0])
def test_first_value_is_init(constraint, init):
    scale = camber.BoundedScale(init, max=100.0, constraint=constraint)
    exact = torch.tensor(init).item()
    if constraint == "sigmoid":
        assert abs(scale().item() - init) <= 2**-24 * (init + 0.23 * 99.5)
    elif scale.in_log_space:
        assert abs(scale().item() - init) <= 2**-24 * init * (1 + abs(math.log(init)))
    else:
        assert scale().item() == exact


def test_presets_start_at_init():
    for name, options in camber.SCALE_PRESETS.items():
        scale = camber.BoundedScale.preset(name)
        assert scale().item() == pytest.approx(options["init"], rel=2**-23)
        assert isinstance(scale.raw, torch.nn.Parameter) == options.get("learnable", True)


def test_sigmoid_starts_at_init_and_not_in_the_middle():
    scale = camber.BoundedScale(constraint="sigmoid")
    assert scale().item() == 2.5
    assert scale.raw.item() == pytest.approx(math.log(2.0 / 2.5), abs=1e-7)
    assert at(scale, 0.0)[0] == 2.75


@pytest.mark.parametrize(
    ("raw", "value", "gradient"),
    [(2.5, 2.5, 1), (0.5, 0.5, 1), (5.0, 5.0, 1), (0.49999997, 0.5, 0), (5.0000005, 5.0, 0), (7, 5.0, 0), (-3, 0.5, 0)],
)
def test_clamp_is_alive_to_the_bounds_and_dead_beyond(raw, value, gradient):
    assert at(camber.BoundedScale(constraint="clamp"), raw) == (value, gradient)


@pytest.mark.parametrize("constraint", ["straight_through", "projected"])
def test_identity_gradient_everywhere(constraint):
    scale = camber.BoundedScale(constraint=constraint)
    for raw in (-3.0, 0.5, 2.5, 5.0, 7.0):
        assert at(scale, raw) == (min(max(raw, 0.5), 5.0), 1)


@pytest.mark.parametrize("constraint", ["clamp", "log_clamp", "straight_through", "projected"])
@pytest.mark.parametrize("largest", [3.0, 10.0, 50.0, 100.0, 1e4])
def test_log_space_never_exceeds_max_and_is_alive_at_it(constraint, largest):
    scale = camber.BoundedScale(2.0, min=0.3, max=largest, constraint=constraint, space="log")
    top = torch.tensor(math.log(largest)).item()
    value, gradient = at(scale, top)
    assert value == torch.tensor(largest).item()
    assert gradient == pytest.approx(largest, rel=1e-6)
    for offset in torch.linspace(-1e-5, 1e-5, 41).tolist():
        assert at(scale, top + offset)[0] <= torch.tensor(largest).item()
    beyond = at(scale, top + 1)
    assert beyond[0] == torch.tensor(largest).item()
    assert (beyond[1] == 0) == (constraint in ("clamp", "log_clamp"))


def test_none_is_free_and_only_the_pull_holds_it():
    scale = camber.BoundedScale(constraint="none", l2_weight=0.01)
    assert at(scale, 45.0) == (45.0, 1.0)
    assert scale.penalty().item() == pytest.approx(0.01 * 42.5**2, rel=1e-6)
    per_head = camber.BoundedScale(2.5, shape=(2,), l2_weight=1.0, l2_center=[2.0, 4.5])
    assert per_head.penalty().item() == pytest.approx(0.25 + 4.0)


@pytest.mark.parametrize("constraint", CONSTRAINTS)
@pytest.mark.parametrize("space", ["linear", "log"])
def test_gradient_is_the_numeric_jacobian(constraint, space):
    scale = camber.BoundedScale(1.5, min=1.0, max=3.0, constraint=constraint, space=space, dtype=torch.float64)
    mapping = scale._map(torch.float64)
    inside = torch.tensor([1.1, 1.7, 2.9], dtype=torch.float64)
    raw = mapping.raw_of(inside).requires_grad_()
    torch.testing.assert_close(mapping.value(raw.detach()), inside)

    def value(raw):
        return torch.func.functional_call(scale, {"raw": raw}, ())

    assert torch.autograd.gradcheck(value, (raw,))


def recovery(constraint, log):
    """Drawn to a target far beyond the bound for 300 steps, then to one inside: steps until it is back, and raw then."""
    options = {"init": 25.0, "min": 1.0, "max": 100.0} if log else {}
    space = "log" if log and constraint != "sigmoid" else "linear"
    scale = camber.BoundedScale(**options, constraint=constraint, space=space)
    first, second, start = (300.0, 20.0, 25.0) if log else (15.0, 1.0, 2.5)
    optimizer = torch.optim.SGD(scale.parameters(), lr=0.01, momentum=0.9)
    wound_up = 0.0
    for step in range(900):
        optimizer.zero_grad()
        (scale() - (first if step < 300 else second)).square().backward()
        torch.nn.utils.clip_grad_norm_(scale.parameters(), 1.0)
        optimizer.step()
        camber.project_scales(optimizer)
        if step == 299:
            wound_up = scale.raw.item()
        if step >= 300 and scale().item() < start:
            return step - 299, wound_up
    return None, wound_up


@pytest.mark.parametrize(
    ("constraint", "log_steps", "linear_steps"),
    [
        ("projected", 22, 34),
        ("straight_through", 309, 310),
        ("clamp", None, None),
        ("log_clamp", None, None),
        ("sigmoid", None, None),
        ("none", 35, 134),
    ],
)
def test_recovers_as_the_cpp_module_does(constraint, log_steps, linear_steps):
    # The values of docs/bounded_scale.md, which the C++ tests print.
    assert recovery(constraint, log=True)[0] == log_steps
    steps, wound_up = recovery(constraint, log=False)
    assert steps == linear_steps
    if constraint == "projected":
        assert wound_up == 5.0


OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=1.0, momentum=0.9),
    "nesterov": lambda p: torch.optim.SGD(p, lr=1.0, momentum=0.9, nesterov=True),
    "adam": lambda p: torch.optim.Adam(p, lr=1.0),
    "adamw": lambda p: torch.optim.AdamW(p, lr=1.0, weight_decay=0.0),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=1.0, momentum=0.9, centered=True),
    "nadam": lambda p: torch.optim.NAdam(p, lr=1.0),
    "radam": lambda p: torch.optim.RAdam(p, lr=1.0),
    "adamax": lambda p: torch.optim.Adamax(p, lr=1.0),
}
WITHOUT_MOMENTUM = {
    "sgd": lambda p: torch.optim.SGD(p, lr=1.0),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=1.0),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=1.0),
    "adadelta": lambda p: torch.optim.Adadelta(p, lr=1e4),
    "rprop": lambda p: torch.optim.Rprop(p, lr=1.0),
    "asgd": lambda p: torch.optim.ASGD(p, lr=1.0),
    "adafactor": lambda p: torch.optim.Adafactor(p, lr=1.0, weight_decay=0.0),
}


@pytest.mark.parametrize("make", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_projection_resets_outward_momentum_element_by_element(make):
    scale = camber.BoundedScale(2.5, shape=(3,))
    optimizer = make(scale.parameters())
    for _ in range(6):
        optimizer.zero_grad()
        (scale() * torch.tensor([-1.0, 1.0, 0.01])).sum().backward()
        optimizer.step()
        camber.project_scales(optimizer)
    assert scale.raw.tolist()[:2] == [5.0, 0.5]
    state = optimizer.state[scale.raw]
    momentum = state["momentum_buffer"] if "momentum_buffer" in state else state["exp_avg"]
    assert momentum[0] == 0 and momentum[1] == 0
    assert (momentum[2] != 0) == (0.5 < scale.raw[2] < 5.0)
    if "exp_avg_sq" in state:
        assert (state["exp_avg_sq"] > 0).all() and state["step"] == 6
    assert scale.share_at_bound()[0] > 0.5 and scale.num_steps == 6


@pytest.mark.parametrize("make", WITHOUT_MOMENTUM.values(), ids=WITHOUT_MOMENTUM)
def test_any_optimizer_is_projected(make):
    scale = camber.BoundedScale(2.5, shape=(2,))
    optimizer = make(scale.parameters())
    camber.project_after_step(optimizer)
    for _ in range(8):
        optimizer.zero_grad()
        (scale() * torch.tensor([-1.0, 1.0])).sum().backward()
        optimizer.step()
    assert scale.raw.tolist() == [5.0, 0.5]


class Heavy(torch.optim.SGD):
    """An optimiser of someone else's, with a momentum of its own name."""

    def step(self, closure=None):
        loss = super().step(closure)
        for group in self.param_groups:
            for parameter in group["params"]:
                self.state[parameter]["heaviness"] = torch.full_like(parameter, -3.0)
        return loss


def test_unknown_state_is_left_alone_and_told_once():
    scale = camber.BoundedScale(5.0)
    optimizer = Heavy(scale.parameters(), lr=1.0)
    (-scale()).backward()
    optimizer.step()
    sentence = (
        "[project_scales] the state of a scale must be momentum_buffer or exp_avg to be reset at a bound, got 'heaviness' "
        "of Heavy, which is left alone"
    )
    with pytest.warns(UserWarning) as told:
        projected = [camber.project_scales(optimizer) for _ in range(2)]
    assert projected == [1, 0]
    assert [str(warning.message) for warning in told] == [sentence]
    assert optimizer.state[scale.raw]["heaviness"] == -3.0


def test_lbfgs_is_projected_and_its_directions_told_once():
    scale = camber.BoundedScale(2.5, shape=(2,))
    optimizer = torch.optim.LBFGS(scale.parameters(), lr=1.0)

    def loss():
        optimizer.zero_grad()
        value = (scale() - torch.tensor([9.0, 1.0])).square().sum()
        value.backward()
        return value

    optimizer.step(loss)
    with pytest.warns(UserWarning, match="got 'd', .* of LBFGS, which is left alone") as told:
        projected = [camber.project_scales(optimizer) for _ in range(2)]
    assert projected[0] >= 1 and projected[1] == 0 and len(told) == 1
    assert scale.raw.tolist()[0] == 5.0


def test_inward_momentum_stays():
    scale = camber.BoundedScale(2.5)
    optimizer = torch.optim.SGD(scale.parameters(), lr=0.1, momentum=0.9)
    scale().backward()
    optimizer.step()
    with torch.no_grad():
        scale.raw.fill_(9.0)  # put above by hand: the momentum points down, inward
    assert camber.project_scales(optimizer) == 1
    assert optimizer.state[scale.raw]["momentum_buffer"].item() == 1.0


def test_only_the_scales_of_this_optimizer_move():
    mine, other = camber.BoundedScale(), camber.BoundedScale()
    with torch.no_grad():
        mine.raw.fill_(9.0)
        other.raw.fill_(9.0)
    assert camber.project_scales(torch.optim.SGD(mine.parameters(), lr=0.1)) == 1
    assert (mine.raw.item(), other.raw.item()) == (5.0, 9.0)


def test_copies_and_loaded_scales_are_projected_too():
    model = torch.nn.Sequential(camber.BoundedScale())
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    for twin in (copy.deepcopy(model), torch.load(file, weights_only=False)):
        with torch.no_grad():
            twin[0].raw.fill_(9.0)
        assert camber.project_scales(torch.optim.Adam(twin.parameters())) == 1
    assert model[0].raw.item() == 2.5


def test_state_has_the_names_of_the_cpp_module_and_carries_the_bounds():
    stages = [camber.BoundsStage(1.0, 2.5, from_step=0), camber.BoundsStage(0.5, 4.0, from_step=5)]
    scale = camber.BoundedScale(2.0, bounds_schedule=stages, constraint="sigmoid")
    assert not scale.apply_schedule(step=4)
    assert scale.apply_schedule(step=5)
    assert scale().item() == pytest.approx(2.0, rel=1e-6)  # raw was derived anew
    assert sorted(scale.state_dict()) == ["bounds", "mapping", "raw"]
    twin = camber.BoundedScale(2.0, bounds_schedule=stages, constraint="sigmoid")
    twin.load_state_dict(scale.state_dict())
    assert twin().item() == scale().item()


def test_tightened_bounds():
    projected = camber.BoundedScale(4.0)
    projected.set_bounds(0.5, 3.0)
    assert projected.raw.item() == 3.0
    sigmoid = camber.BoundedScale(4.0, constraint="sigmoid")
    sigmoid.set_bounds(0.5, 3.0)
    assert sigmoid().item() == pytest.approx(3.0 - 2.5e-3, rel=1e-6)
    clamp = camber.BoundedScale(4.0, constraint="clamp")
    clamp.set_bounds(0.5, 3.0)
    assert (clamp().item(), clamp.raw.item()) == (3.0, 4.0)


@pytest.mark.filterwarnings("default")
def test_a_forgotten_projector_is_told_once():
    scale = camber.BoundedScale()
    with torch.no_grad():
        scale.raw.fill_(6.0)
    with pytest.warns(UserWarning, match=r"call camber.project_scales\(optimizer\) after optimizer.step\(\)") as told:
        [scale() for _ in range(2)]
    assert len(told) == 1


def test_weight_decay_on_a_scale_is_told():
    scale = camber.BoundedScale()
    with pytest.warns(UserWarning, match="weight decay of a BoundedScale must be 0, got 0.01"):
        camber.project_scales(torch.optim.AdamW(scale.parameters()))


def test_hook_projects_after_every_step():
    scale = camber.BoundedScale(5.0)
    optimizer = torch.optim.SGD(scale.parameters(), lr=1.0)
    handle = camber.project_after_step(optimizer)
    for expected in (5.0, 6.0):
        optimizer.zero_grad()
        (-scale()).backward()
        optimizer.step()
        assert scale.raw.item() == expected
        handle.remove()


def test_compiles_to_one_graph():
    scale = camber.BoundedScale(2.5, shape=(4,), space="log")
    compiled = torch.compile(lambda: (scale() * 2).sum(), fullgraph=True, backend="aot_eager")
    compiled().backward()
    torch.testing.assert_close(scale.raw.grad, torch.full((4,), 5.0))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"init": 6.0}, "[BoundedScale] init must lie inside [min, max] = [0.5, 5.0], got 6.0"),
        ({"min": 3.0, "max": 3.0, "init": 3.0}, "[BoundedScale] min must be below max, got 3.0 and 3.0"),
        ({"min": 0.0, "space": "log"}, "[BoundedScale] min must be above 0 in log space, got 0.0"),
        (
            {"init": 0.5, "constraint": "sigmoid"},
            (
                "[BoundedScale] init must lie strictly inside [min, max] = [0.5, 5.0] for sigmoid, which never touches a "
                "bound, got 0.5"
            ),
        ),
        (
            {"constraint": "squash"},
            (
                "[BoundedScale] constraint must be one of clamp, sigmoid, log_clamp, straight_through, projected, none, "
                "got 'squash'"
            ),
        ),
        ({"l2_weight": -1.0}, "[BoundedScale] l2_weight must be a finite number of at least 0, got -1.0"),
        ({"shape": (0,)}, "[BoundedScale] shape must hold sizes of at least 1, got [0]"),
        (
            {"bounds_schedule": [camber.BoundsStage(1.0, 2.0, from_epoch=0)]},
            "[BoundedScale] init must lie inside the bounds of bounds_schedule[0] = [1.0, 2.0], got 2.5",
        ),
        (
            {"bounds_schedule": [camber.BoundsStage(1.0, 3.0)]},
            "[BoundedScale] bounds_schedule[0] must give either from_epoch or from_step, got None and None",
        ),
    ],
)
def test_errors_are_sentences(options, sentence):
    with pytest.raises(ValueError) as error:
        camber.BoundedScale(**options)
    assert str(error.value) == sentence


def test_unknown_names_are_refused():
    with pytest.raises(ValueError, match="preset must be one of conservative, aggressive"):
        camber.BoundedScale.preset("bold")


@pytest.mark.parametrize("constraint", ["projected", "sigmoid", "log_clamp"])
def test_made_on_the_meta_device(constraint):
    with torch.device("meta"):
        scale = camber.BoundedScale(3.0, constraint=constraint, shape=(2,))
    assert scale.raw.is_meta and "bounds=[0.5, 5.0]" in repr(scale)
    scale = scale.to_empty(device="cpu")
    scale.reset_parameters()
    twin = camber.BoundedScale(3.0, constraint=constraint, shape=(2,))
    assert torch.equal(scale.raw, twin.raw) and torch.equal(scale.bounds, twin.bounds)
    optimizer = torch.optim.SGD(scale.parameters(), lr=0.1)
    assert camber.project_scales(optimizer) == 0
    assert scale.share_at_bound().tolist() == [0.0, 0.0]
