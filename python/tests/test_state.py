"""State: what BoundedScale and AttentionBias save, what loading takes from it, and what a cast leaves alone."""

import warnings

import pytest
import torch

import camber

GRID = camber.BevGrid(-10, 10, -8, 8, cell=0.5)
STAGES = [(0, 1.0), (3, 4.0)]


def bias_with(**options):
    return camber.AttentionBias(GRID, None, **options)


def strength(bias):
    return bias.strength(torch.ones(1, 1, 1), 1).item()


def test_the_clip_in_force_is_saved_and_loaded():
    saved = bias_with(clip=5.0, clip_schedule=STAGES, scale={"init": 4.5})
    saved.apply_schedule(epoch=0)
    loaded = bias_with(clip=5.0, clip_schedule=STAGES, scale={"init": 4.5})
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # 1 is one of the clips that the constructor named
        loaded.load_state_dict(saved.state_dict())
    assert (saved.clip, loaded.clip) == (1.0, 1.0)
    assert strength(loaded) == strength(saved) == 1.0


def test_a_file_without_a_clip_means_the_configured_one():
    for options, expected in (({"clip": 2.0}, 2.0), ({"scale": {"max": 7.0}}, 7.0)):
        saved = bias_with(**options)
        state = {name: value for name, value in saved.state_dict().items() if name.split(".")[-1] in ("raw", "bounds")}
        loaded = bias_with(**options)
        loaded.load_state_dict(state)
        assert loaded.clip == expected


def test_a_clip_that_the_constructor_did_not_say_is_told():
    saved = bias_with(clip=3.0)
    loaded = bias_with()
    with pytest.warns(UserWarning) as told:
        loaded.load_state_dict(saved.state_dict())
    assert [str(warning.message) for warning in told] == [
        "[AttentionBias] clip is 3.0 as loaded, the constructor said the scale's max"
    ]
    assert loaded.clip == 3.0


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"max": 8.0}, "bounds are [0.5, 5.0] as loaded, the constructor said [0.5, 8.0]"),
        ({"constraint": "sigmoid"}, "constraint is projected as loaded, the constructor said sigmoid"),
        ({"space": "log"}, "space is linear as loaded, the constructor said log"),
    ],
)
def test_a_loaded_scale_is_the_saved_one_and_says_what_the_constructor_said(options, sentence):
    saved = camber.BoundedScale(2.5)
    loaded = camber.BoundedScale(3.0, **options)
    with pytest.warns(UserWarning) as told:
        loaded.load_state_dict(saved.state_dict())
    assert [str(warning.message) for warning in told] == [f"[BoundedScale] {sentence}"]
    assert loaded().item() == saved().item() == 2.5
    assert (loaded.constraint, loaded.space, loaded.max) == ("projected", "linear", 5.0)


def test_bounds_of_a_stage_are_no_surprise():
    stages = [camber.BoundsStage(0.5, 4.0, from_step=5)]
    saved = camber.BoundedScale(2.0, bounds_schedule=stages)
    saved.apply_schedule(step=5)
    loaded = camber.BoundedScale(2.0, bounds_schedule=stages)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loaded.load_state_dict(saved.state_dict())
    assert loaded.max == 4.0


def test_a_scale_without_a_mapping_is_read_as_constructed():
    saved = camber.BoundedScale(2.5, constraint="sigmoid")
    state = {"raw": saved.raw.detach(), "bounds": saved.bounds}
    loaded = camber.BoundedScale(3.0, constraint="sigmoid")
    loaded.load_state_dict(state)
    assert loaded().item() == 2.5
    assert loaded.constraint == "sigmoid"


def test_a_damaged_mapping_is_refused():
    state = camber.BoundedScale().state_dict()
    state["mapping"] = torch.tensor([9, 0])
    with pytest.raises(RuntimeError, match=r"mapping must be \[constraint 0 to 5, log space 0 or 1\], got \[9, 0\]"):
        camber.BoundedScale().load_state_dict(state)


def test_shapes_alone_load_too():
    with torch.device("meta"):
        shapes = bias_with(clip=3.0)
    shapes.load_state_dict(bias_with(clip=3.0).state_dict(), assign=True)
    assert (shapes.clip, shapes.scale().item()) == (3.0, 2.5)
    with torch.device("meta"):
        bias_with(clip=3.0).load_state_dict(bias_with(clip=4.0).state_dict(), assign=True)  # nothing to compare


def test_a_cast_leaves_bounds_and_clip_alone():
    bias = bias_with(clip=3.3, scale={"min": 0.1, "max": 3.3})
    bias.half().float()
    assert bias.scale.bounds.tolist() == [0.1, 3.3]
    assert bias.clip == 3.3
    assert bias.scale.raw.dtype == torch.float32
    assert bias.scale.bounds.dtype == torch.float64


def test_trust_beyond_one_is_refused():
    # trust 3, scale 2.5: the clip at 5 would leave neither of them a gradient.
    bias = bias_with()
    with pytest.raises(ValueError) as error:
        bias.strength(torch.tensor([[[-3.0]]]), 1)
    assert str(error.value) == "[AttentionBias] trust must lie in [-1, 1], got -3.0"
    assert bias.strength(torch.tensor([[[float("nan")]]]), 1).isnan().all()
    compiled = torch.compile(lambda trust: bias.strength(trust, 1), fullgraph=True, backend="aot_eager")
    assert compiled(torch.ones(1, 1, 1)).item() == 2.5
    with pytest.raises(RuntimeError, match=r"trust must lie in \[-1, 1\]"):
        compiled(torch.full((1, 1, 1), 3.0))
