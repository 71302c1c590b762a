"""Sparse convolution from Python: the dense convolution it stands for, types, compilation, what it refuses."""

import pytest
import torch

import camber

SHAPE = (4, 5, 6)


def sites():
    """About a third of the cells of two grids, in no order."""
    torch.manual_seed(4)
    found = (torch.rand(2, *SHAPE) < 0.3).nonzero()
    return found[torch.randperm(len(found))]


def dense(coordinates, features, weight, stride, padding):
    grid = torch.zeros(2, *SHAPE, features.shape[1], dtype=features.dtype)
    grid = grid.index_put(tuple(coordinates.long().t()), features).permute(0, 4, 1, 2, 3)
    return torch.nn.functional.conv3d(grid, weight.permute(0, 4, 1, 2, 3), stride=stride, padding=padding)


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_equals_the_dense_convolution(stride, dtype):
    coordinates = sites()
    indices = camber.build_sparse_indices(coordinates, SHAPE, 2, stride=stride, padding=1, submanifold=stride == 1)
    features = torch.randn(len(coordinates), 5, dtype=dtype, requires_grad=True)
    weight = torch.randn(7, 3, 3, 3, 5, dtype=dtype, requires_grad=True)
    output = camber.sparse_convolution(features, weight, indices)
    grid = dense(coordinates, features, weight, stride, 1)
    assert indices.spatial_shape == tuple(grid.shape[2:])
    batch, z, y, x = indices.coordinates.long().t()
    expected = grid[batch, :, z, y, x]
    tolerance = {"rtol": 0, "atol": 1e-12 if dtype == torch.float64 else 1e-4}
    torch.testing.assert_close(output, expected, **tolerance)
    gradients = (torch.autograd.grad(o.square().sum(), (features, weight)) for o in (output, expected))
    for got, wanted in zip(*gradients, strict=True):
        torch.testing.assert_close(got, wanted, rtol=1e-5, atol=tolerance["atol"] * 10)


def test_bfloat16_serves_inference():
    indices = camber.build_sparse_indices(sites(), SHAPE, 2, submanifold=True)
    features, weight = torch.randn(indices.inputs, 5).bfloat16(), torch.randn(7, 3, 3, 3, 5).bfloat16()
    output = camber.sparse_convolution(features, weight, indices)
    assert output.dtype == torch.bfloat16
    expected = camber.sparse_convolution(features.float(), weight.float(), indices)
    torch.testing.assert_close(output.float(), expected, rtol=2**-8, atol=1e-5)
    with pytest.raises(ValueError, match="features must be float or double where a gradient is needed, got BFloat16"):
        camber.sparse_convolution(features, weight.requires_grad_(), indices)


def test_runs_in_float_under_autocast():
    indices = camber.build_sparse_indices(sites(), SHAPE, 2, submanifold=True)
    features, weight = torch.randn(indices.inputs, 5), torch.randn(7, 3, 3, 3, 5, requires_grad=True)
    expected = camber.sparse_convolution(features.bfloat16().float(), weight, indices)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output = camber.sparse_convolution(features.bfloat16(), weight, indices)
    torch.testing.assert_close(output, expected, rtol=0, atol=0)
    output.sum().backward()
    assert weight.grad.dtype == torch.float32 and weight.grad.abs().max() > 0


def test_compiles_to_one_graph_with_the_indices_inside():
    def network(coordinates, features, first, second):
        same = camber.build_sparse_indices(coordinates, SHAPE, 2, submanifold=True)
        x = camber.sparse_convolution(features, first, same).relu()
        halved = camber.build_sparse_indices(same.coordinates, SHAPE, 2, stride=2, padding=1)
        return camber.sparse_convolution(x, second, halved)

    coordinates = sites()
    features = torch.randn(len(coordinates), 5)
    weights = torch.randn(6, 3, 3, 3, 5, requires_grad=True), torch.randn(7, 3, 3, 3, 6, requires_grad=True)
    expected = network(coordinates, features, *weights)
    output = torch.compile(network, fullgraph=True, backend="aot_eager")(coordinates, features, *weights)
    torch.testing.assert_close(output, expected, rtol=0, atol=0)
    gradients = (torch.autograd.grad(o.square().sum(), weights) for o in (output, expected))
    for got, wanted in zip(*gradients, strict=True):
        torch.testing.assert_close(got, wanted, rtol=0, atol=0)


def test_double_backward_is_refused():
    indices = camber.build_sparse_indices(sites(), SHAPE, 2, submanifold=True)
    features = torch.randn(indices.inputs, 2, requires_grad=True)
    output = camber.sparse_convolution(features, torch.randn(3, 3, 3, 3, 2), indices)
    (first,) = torch.autograd.grad(output.square().sum(), features, create_graph=True)
    with pytest.raises(NotImplementedError, match=r"\[sparse_convolution\] double backward .* only first derivatives"):
        first.sum().backward()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            {"coordinates": torch.zeros(2, 3, dtype=torch.int64)},
            "coordinates must be int32 or int64 [N, 4], got Long [2, 3]",
        ),
        (
            {"coordinates": torch.zeros(2, 4, dtype=torch.int32)},
            "coordinates must hold every site once, got (0, 0, 0, 0) twice",
        ),
        ({"coordinates": torch.tensor([[2, 0, 0, 0]])}, "coordinates must have batches in 0 .. 1, got 2 in row 0"),
        ({"spatial_shape": (4, 5)}, "spatial_shape must be a number or 3 of them (z, y, x), got 2"),
        ({"kernel": 2, "submanifold": True}, "kernel must be odd where submanifold, got (2, 2, 2)"),
        ({"stride": 0}, "stride must be at least 1 and below 2^31 along every axis, got (0, 0, 0)"),
    ],
)
def test_bad_indices_get_a_sentence(change, sentence):
    good = {"coordinates": sites(), "spatial_shape": SHAPE, "batch": 2, "kernel": 3}
    with pytest.raises(ValueError) as error:
        camber.build_sparse_indices(**{**good, **change})
    assert str(error.value) == f"[build_sparse_indices] {sentence}"


def test_bad_features_weights_and_pairs_get_a_sentence():
    indices = camber.build_sparse_indices(sites(), SHAPE, 2, submanifold=True)
    rows = indices.inputs
    features, weight = torch.randn(rows, 5), torch.randn(7, 3, 3, 3, 5)

    def sentence(features=features, weight=weight, indices=indices):
        with pytest.raises(ValueError) as error:
            camber.sparse_convolution(features, weight, indices)
        return str(error.value)

    start = "[sparse_convolution]"
    expected = f"{start} features must be [N, Cin] with the {rows} input rows of indices, got [{rows - 1}, 5]"
    assert sentence(features=features[1:]) == expected
    expected = (
        f"{start} weight must be [Cout, kz, ky, kx, Cin] with the kernel (3, 3, 3) of indices, got [7, 3, 3, 1, 5]"
    )
    assert sentence(weight=weight[:, :, :, :1]) == expected
    expected = f"{start} features must be a float, double or bfloat16 tensor [N, Cin], got Half [{rows}, 5]"
    assert sentence(features=features.half(), weight=weight.half()) == expected
    # Lists that leave memory.
    for part in ("pair_input", "pair_output"):
        far = indices._replace(**{part: torch.full_like(getattr(indices, part), 50_000_000)})
        assert sentence(indices=far).startswith(f"{start} pairs must be those of one SparseIndices, but a forward pair")
    far = indices._replace(pair_offsets=indices.pair_offsets * 50_000_000)
    assert sentence(indices=far).startswith(f"{start} pairs must be those of one SparseIndices, but a forward pair")
