"""AttentionBias as models meet it: half precision, autocast, checkpoints, lists of matrices, shards, the meta device."""

import numpy
import pytest
import torch
from test_attention_bias import BATCH, CAMERA, GRID, QUERIES, draw_points, rig
from torch.utils.checkpoint import checkpoint

import camber


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_trust_is_computed_in_float(dtype):
    points, matrices = draw_points(), rig()
    bias = camber.AttentionBias(GRID, CAMERA, camera_window=7, segments=True, scale={"init": 2.4})
    trust = torch.rand(BATCH, QUERIES, 2).to(dtype).requires_grad_(True)
    structured, exact = bias(points, matrices, trust), bias(points, matrices, trust.detach().float())
    assert torch.equal(structured.windows.value, exact.windows.value)
    assert torch.equal(structured.segments.value, exact.segments.value)
    (structured.windows.value.sum() + structured.segments.value.sum()).backward()
    assert trust.grad.dtype == dtype and trust.grad.abs().max() > 0


def test_trust_of_a_router_under_autocast():
    points, matrices = draw_points(), rig()
    router, bias = torch.nn.Linear(8, 2), camber.AttentionBias(GRID, CAMERA, camera_window=7)
    features = torch.randn(BATCH, QUERIES, 8)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        trust = router(features).tanh()
        value = bias(points, matrices, trust).windows.value
    assert trust.dtype == torch.bfloat16 and value.dtype == torch.float32
    assert torch.equal(value, bias(points, matrices, trust.float()).windows.value)
    value.sum().backward()
    assert router.weight.grad.abs().max() > 0 and bias.scale.raw.grad != 0


def layers(bias, trust, placed, reentrant):
    """The loss of two checkpointed layers that share one bias; reentrant=None: without checkpoints."""
    torch.manual_seed(9)
    keys = placed.shape[2]
    q, k, v = (torch.randn(BATCH, 4, n, 8) for n in (QUERIES, keys, keys))
    structured = bias.from_windows(trust, placed)
    q.requires_grad_(True)
    for _ in range(2):

        def attend(q):
            return camber.biased_attention(q, k, v, structured).output

        q = attend(q) if reentrant is None else checkpoint(attend, q, use_reentrant=reentrant)
    return q.square().sum()


def test_checkpointed_layers_share_a_bias():
    bias = camber.AttentionBias(GRID, CAMERA, camera_window=7, segments=True)
    placed = bias.windows_at(draw_points(), rig())
    trust = torch.rand(BATCH, QUERIES, 2, requires_grad=True)
    leaves = (trust, bias.scale.raw, bias.segment_scale.raw)
    expected = torch.autograd.grad(layers(bias, trust, placed, None), leaves)
    for got, wanted in zip(torch.autograd.grad(layers(bias, trust, placed, False), leaves), expected, strict=True):
        torch.testing.assert_close(got, wanted)


@pytest.mark.parametrize("options", [{}, {"windows": False, "segments": True}])
def test_reentrant_checkpoints_of_a_shared_bias_are_a_sentence(options):
    bias = camber.AttentionBias(GRID, CAMERA, camera_window=7, **options)
    placed = bias.windows_at(draw_points(), rig())
    loss = layers(bias, torch.rand(BATCH, QUERIES, 2, requires_grad=True), placed, True)
    with pytest.raises(RuntimeError) as error:
        loss.backward()
    assert str(error.value).splitlines()[0] == (
        "[StructuredBias] a bias that layers share must meet one backward pass, got a second one through its freed "
        "graph: give torch.utils.checkpoint use_reentrant=False, or backward retain_graph=True"
    )


def test_matrices_may_be_lists_of_arrays():
    """As img_metas hold them: a list of one array a camera for each element of the batch."""
    points, matrices = draw_points(), rig()
    bias = camber.AttentionBias(GRID, CAMERA, camera_window=7)
    expected = bias.windows_at(points, matrices).index
    arrays = [[matrix.numpy() for matrix in element] for element in matrices]
    for given in (arrays, matrices.numpy(), [numpy.stack(element) for element in arrays], matrices.tolist()):
        index = bias.windows_at(points, given).index
        assert all(torch.equal(got, wanted) for got, wanted in zip(index, expected, strict=True))
    for bad, got in ((["a"], "list"), ([arrays[0], arrays[1][:1]], "list"), ("rig", "str")):
        start = (
            "lidar2img must be a tensor, an array or lists of 4 x 4 arrays, as many for each element of the batch, got "
        )
        with pytest.raises(ValueError, match=rf"^\[AttentionBias\] {start}{got} \("):
            bias.windows_at(points, bad)


@pytest.mark.parametrize("segments", [False, True])
def test_a_shared_scale_may_have_one_dimension(segments):
    points, matrices, trust = draw_points(), rig(), torch.rand(BATCH, QUERIES, 2)
    one = {"shape": [1]}
    options = {"camera_window": 7, "segments": segments}
    bias = camber.AttentionBias(GRID, CAMERA, scale=one, segment_scale=one, **options)
    assert bias.scale.raw.shape == (1,)
    structured, expected = (
        bias(points, matrices, trust),
        camber.AttentionBias(GRID, CAMERA, **options)(points, matrices, trust),
    )
    assert torch.equal(structured.windows.value, expected.windows.value)
    if segments:
        assert torch.equal(structured.segments.value, expected.segments.value)


def test_a_shape_that_does_not_fit_the_sharing_is_a_sentence():
    for options, sentence in (
        ({"scale": {"shape": [2]}}, "shape of scale must be [] or [1] for sharing = 'shared', got [2]"),
        (
            {"sharing": "per_head", "num_heads": 4, "segments": True, "segment_scale": {"shape": [1]}},
            "shape of segment_scale must be [4] for sharing = 'per_head', got [1]",
        ),
    ):
        with pytest.raises(ValueError) as error:
            camber.AttentionBias(GRID, CAMERA, **options)
        assert str(error.value) == f"[AttentionBias] {sentence}"


def test_made_on_the_meta_device():
    with torch.device("meta"):
        bias = camber.AttentionBias(GRID, CAMERA, camera_window=7, segments=True)
    assert all(tensor.is_meta for tensor in bias.state_dict().values())
    bias = bias.to_empty(device="cpu")
    for module in bias.modules():
        if hasattr(module, "reset_parameters"):
            module.reset_parameters()
    expected = camber.AttentionBias(GRID, CAMERA, camera_window=7, segments=True)
    for name, tensor in expected.state_dict().items():
        assert torch.equal(bias.state_dict()[name], tensor), name
    assert bias.clip == expected.clip
