"""AttentionBias against a slow loop over queries, maps and cells; scales, clips, gradients, sentences."""

import itertools
import math

import pytest
import torch

import camber

GRID = camber.BevGrid(-10, 10, -8, 8, cell=0.5)
CAMERA = camber.CameraMap(width=100, height=60, columns=21, rows=15)
VIEWS, BATCH, QUERIES = 3, 2, 40


def rig():
    """Three cameras on a ring, a little different for each batch element; float64 [B, V, 4, 4]."""
    matrices = torch.zeros(BATCH, VIEWS, 4, 4, dtype=torch.float64)
    for b in range(BATCH):
        for view in range(VIEWS):
            angle = 2 * math.pi * view / VIEWS + 0.1 * b
            forward = torch.tensor([math.cos(angle), math.sin(angle), 0.0], dtype=torch.float64)
            right = torch.tensor([math.sin(angle), -math.cos(angle), 0.0], dtype=torch.float64)
            down = torch.tensor([0.0, 0.0, -1.0], dtype=torch.float64)
            matrices[b, view, 0, :3] = 30 * right + 50 * forward
            matrices[b, view, 1, :3] = 30 * down + 30 * forward
            matrices[b, view, 2, :3] = forward
            matrices[b, view, 3, 3] = 1
    return matrices


def draw_points():
    torch.manual_seed(4)
    points = torch.rand(BATCH, QUERIES, 3, dtype=torch.float64) * torch.tensor([24.0, 20.0, 4.0]) - torch.tensor(
        [12.0, 10.0, 2.0]
    )
    points[0, 0] = torch.tensor([10.0, 8.0, 0.0])  # the upper border belongs to the last cell
    points[0, 1] = torch.tensor([-10.0, -8.0, 0.0])
    points[0, 2] = torch.tensor([math.nan, 0.0, 0.0])
    return points


def cell_by_hand(point, matrices, m):
    """(column, row) of a point on map m, or None."""
    x, y, z = point.tolist()
    if m == 0:
        if not (-10 <= x <= 10 and -8 <= y <= 8):
            return None
        return min(int((x + 10) // 0.5), 39), min(int((y + 8) // 0.5), 31)
    p = matrices[m - 1].tolist()
    row_u, row_v, depth = (r[0] * x + r[1] * y + r[2] * z + r[3] for r in p[:3])
    if not depth > 0.1:
        return None
    u, v = row_u / depth, row_v / depth
    if not (0 <= u < 100 and 0 <= v < 60):
        return None
    return min(int(u // (100 / 21)), 20), min(int(v // 4), 14)


def dense_by_loop(points, matrices, strength, sizes, form="box"):
    """[B, Q, K] for strength [B, Q, M], the signed strength on each map."""
    shapes = [(GRID.columns, GRID.rows)] + [(CAMERA.columns, CAMERA.rows)] * VIEWS
    starts = [0, *itertools.accumulate(c * r for c, r in shapes)]
    dense = torch.zeros(*points.shape[:2], starts[-1], dtype=torch.float64)
    for b, q, m in itertools.product(range(points.shape[0]), range(points.shape[1]), range(len(shapes))):
        place = cell_by_hand(points[b, q], matrices[b], m)
        if place is None:
            continue
        (columns, rows), size = shapes[m], int(sizes[b, q, m])
        for y, x in itertools.product(range(rows), range(columns)):
            dx, dy = abs(x - place[0]), abs(y - place[1])
            if max(dx, dy) <= size // 2:
                g = 1.0 if form == "box" else math.exp(-(dx**2 + dy**2) / (2 * (size / 6) ** 2))
                dense[b, q, starts[m] + y * columns + x] = g * strength[b, q, m]
    return dense


def fixed_sizes(bev=5, camera=7):
    return torch.tensor([bev] + [camera] * VIEWS).expand(BATCH, QUERIES, -1)


def test_points_are_seen_by_none_one_and_several_maps():
    points, matrices = draw_points(), rig()
    seen = [
        sum(cell_by_hand(points[b, q], matrices[b], m) is not None for m in range(1 + VIEWS))
        for b, q in itertools.product(range(BATCH), range(QUERIES))
    ]
    assert {0, 1, 2} <= set(seen)


@pytest.mark.parametrize("form", ["box", "gaussian"])
def test_windows_are_those_of_a_slow_loop(form):
    points, matrices = draw_points(), rig()
    trust = torch.rand(BATCH, QUERIES, 2, dtype=torch.float64) * 2 - 1
    bias = camber.AttentionBias(GRID, CAMERA, camera_window=7, form=form)
    structured = bias(points, matrices, trust)
    by_map = 2.5 * torch.cat((trust[..., :1], trust[..., 1:].expand(-1, -1, VIEWS)), -1)
    expected = dense_by_loop(points, matrices, by_map, fixed_sizes(), form)
    torch.testing.assert_close(structured.materialize().squeeze(1), expected, atol=1e-6, rtol=1e-6)
    assert structured.segments.offsets.tolist() == [0, 1280, 1595, 1910, 2225]


def test_normalised_points_are_those_of_their_range():
    points, matrices = draw_points(), rig()
    low, high = torch.tensor([-12.0, -10.0, -2.0]), torch.tensor([12.0, 10.0, 2.0])
    trust = torch.ones(BATCH, QUERIES, 2)
    metric = camber.AttentionBias(GRID, CAMERA, camera_window=7)(points, matrices, trust)
    scaled = camber.AttentionBias(GRID, CAMERA, camera_window=7, point_range=(*low.tolist(), *high.tolist()))
    again = scaled((points - low) / (high - low), matrices, trust)
    # Points drawn at random do not lie on the border of a cell, where the rounding of the way there would show.
    assert torch.equal(again.materialize()[:, :, 3:], metric.materialize()[:, :, 3:])


def test_one_weight_a_camera():
    points, matrices = draw_points(), rig()
    trust = torch.rand(BATCH, QUERIES, 1 + VIEWS, dtype=torch.float64)
    structured = camber.AttentionBias(GRID, CAMERA, camera_window=7, per_camera=True)(points, matrices, trust)
    expected = dense_by_loop(points, matrices, 2.5 * trust, fixed_sizes())
    torch.testing.assert_close(structured.materialize().squeeze(1), expected, atol=1e-6, rtol=1e-6)


def test_segments_bias_whole_maps():
    points, matrices = draw_points(), rig()
    trust = torch.rand(BATCH, QUERIES, 2, dtype=torch.float64) * 2 - 1
    bias = camber.AttentionBias(GRID, CAMERA, windows=False, segments=True, segment_scale={"init": 4.0})
    structured = bias(points, matrices, trust)
    assert structured.windows is None
    weights = torch.cat((trust[..., :1], trust[..., 1:].expand(-1, -1, VIEWS)), -1)
    torch.testing.assert_close(structured.segments.value, (4.0 * weights).unsqueeze(1))


def test_locality_is_added_to_the_windows_below_the_clip():
    points, matrices = draw_points(), rig()
    trust = torch.rand(BATCH, QUERIES, 2, dtype=torch.float64) * 2 - 1
    weights = torch.cat((trust[..., :1], trust[..., 1:].expand(-1, -1, VIEWS)), -1)
    options = {"camera_window": 7, "locality": True, "locality_scale": {"init": 3.0}}
    structured = camber.AttentionBias(GRID, CAMERA, **options)(points, matrices, trust)
    expected = dense_by_loop(points, matrices, (3.0 + 2.5 * weights).clamp(-5, 5), fixed_sizes())
    torch.testing.assert_close(structured.materialize().squeeze(1), expected, atol=1e-6, rtol=1e-6)
    apart = camber.AttentionBias(GRID, CAMERA, **options, window_trust=False, segments=True)
    structured = apart(points, matrices, trust)
    assert structured.windows.value.unique().tolist() == [3.0]
    torch.testing.assert_close(structured.segments.value, (2.5 * weights).unsqueeze(1))


def test_absent_sensors_hold_no_window():
    points, matrices = draw_points(), rig()
    available = torch.tensor([[True, True, False, True], [False, True, True, True]])
    bias = camber.AttentionBias(GRID, CAMERA, camera_window=7)
    structured = bias(points, matrices, torch.ones(BATCH, QUERIES, 2), available=available).materialize()
    assert structured[0, ..., 1595:1910].abs().max() == 0 and structured[1, ..., :1280].abs().max() == 0
    assert structured[0, ..., :1280].abs().max() == 2.5 and structured[1, ..., 1595:1910].abs().max() == 2.5


def test_windows_follow_the_objects():
    points, matrices = draw_points(), rig()
    boxes = torch.cat((points, torch.rand(BATCH, QUERIES, 4, dtype=torch.float64) * 3 + 0.5), -1)
    sizes = torch.zeros(BATCH, QUERIES, 1 + VIEWS)

    def odd(cells):
        size = math.ceil(min(max(cells, 1.0), 31.0))
        return min(max(size + (size % 2 == 0), 3), 31)

    for b, q in itertools.product(range(BATCH), range(QUERIES)):
        x, y, z, length, width, height, yaw = boxes[b, q].tolist()
        sizes[b, q, 0] = odd(math.hypot(length, width) / 0.5)
        for view in range(VIEWS):
            spots = []
            for i, j, k in itertools.product((-0.5, 0.5), repeat=3):
                dx, dy = i * length, j * width
                corner = (
                    x + math.cos(yaw) * dx - math.sin(yaw) * dy,
                    y + math.sin(yaw) * dx + math.cos(yaw) * dy,
                    z + k * height,
                    1.0,
                )
                u, v, depth = (sum(m * c for m, c in zip(r, corner)) for r in matrices[b, view].tolist()[:3])
                if depth > 0.1:
                    spots.append((u / depth, v / depth))
            extent = [max(s[a] for s in spots) - min(s[a] for s in spots) if spots else 0.0 for a in (0, 1)]
            sizes[b, q, 1 + view] = odd(math.hypot(extent[0] / (100 / 21), extent[1] / 4))
    assert sizes[0, 2, 0] >= 3
    points, boxes, sizes = points[:, 3:], boxes[:, 3:], sizes[:, 3:]  # without the point that is no number
    trust = torch.ones(BATCH, QUERIES - 3, 2, dtype=torch.float64)
    with pytest.warns(UserWarning, match="covers more than a quarter of map"):
        structured = camber.AttentionBias(GRID, CAMERA)(points, matrices, trust, boxes=boxes)
    expected = dense_by_loop(points, matrices, 2.5 * torch.ones(BATCH, QUERIES - 3, 1 + VIEWS), sizes)
    torch.testing.assert_close(structured.materialize().squeeze(1), expected, atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("sharing", ["shared", "per_modality", "per_layer", "per_head"])
def test_sharing_of_the_scale(sharing):
    points, matrices = draw_points(), rig()
    bias = camber.AttentionBias(GRID, CAMERA, camera_window=7, sharing=sharing, num_layers=2, num_heads=4)
    shapes = {"shared": (), "per_modality": (2,), "per_layer": (2,), "per_head": (4,)}
    assert bias.scale.raw.shape == shapes[sharing]
    with torch.no_grad():
        bias.scale.raw.copy_(torch.linspace(1, 3, bias.scale.raw.numel()).view(shapes[sharing]))
    dense = bias(points, matrices, torch.ones(BATCH, QUERIES, 2), layer=1).materialize()
    on_grid = dense[..., :1280].amax((0, 2, 3)).tolist()
    in_cameras = dense[..., 1280:].amax((0, 2, 3)).tolist()
    expected = {
        "shared": ([1.0], [1.0]),
        "per_modality": ([1.0], [3.0]),
        "per_layer": ([3.0], [3.0]),
        "per_head": (pytest.approx([1, 5 / 3, 7 / 3, 3]), pytest.approx([1, 5 / 3, 7 / 3, 3])),
    }
    assert (on_grid, in_cameras) == expected[sharing]


def test_clip_and_its_schedule():
    points, matrices = draw_points(), rig()
    bias = camber.AttentionBias(GRID, CAMERA, camera_window=7, clip=2.0, clip_schedule=[(3, 1.0)])
    trust = torch.full((BATCH, QUERIES, 2), 0.8, requires_grad=True)  # 0.8 * 2.5 lies on the clip
    structured = bias(points, matrices, trust)
    assert structured.windows.value.max() == 2.0
    structured.windows.value.sum().backward()
    assert trust.grad.abs().max() > 0  # the gradient passes at the bound
    bias.apply_schedule(epoch=3)
    assert bias.clip == 1.0
    assert bias(points, matrices, trust).windows.value.max() == 1.0
    assert camber.AttentionBias(GRID, CAMERA, scale={"max": 7.0}).clip == 7.0


def test_gradients_reach_trust_and_scales():
    points, matrices = draw_points()[:, :6], rig()
    bias = camber.AttentionBias(GRID, CAMERA, camera_window=7, segments=True).double()
    placed = bias.windows_at(points, matrices)

    def dense(trust, scale, segment_scale):
        parameters = {"scale.raw": scale, "segment_scale.raw": segment_scale}
        structured = torch.func.functional_call(
            FromWindows(bias), {f"bias.{k}": v for k, v in parameters.items()}, (trust, placed)
        )
        return structured.windows.value, structured.segments.value

    trust = torch.rand(BATCH, 6, 2, dtype=torch.float64, requires_grad=True)
    scales = [torch.tensor(2.5, dtype=torch.float64, requires_grad=True) for _ in range(2)]
    assert torch.autograd.gradcheck(dense, (trust, *scales))


class FromWindows(torch.nn.Module):
    def __init__(self, bias):
        super().__init__()
        self.bias = bias

    def forward(self, trust, placed):
        return self.bias.from_windows(trust, placed)


def test_from_windows_compiles_to_one_graph():
    points, matrices = draw_points(), rig()
    bias = camber.AttentionBias(GRID, CAMERA, camera_window=7, segments=True)
    placed = bias.windows_at(points, matrices)
    keys = placed.shape[2]
    q, k, v = (torch.randn(BATCH, 4, n, 8) for n in (QUERIES, keys, keys))
    trust = torch.rand(BATCH, QUERIES, 2, requires_grad=True)

    def attend(trust, placed):
        return camber.biased_attention(q, k, v, bias.from_windows(trust, placed)).output.square().sum()

    loss = torch.compile(attend, fullgraph=True, backend="aot_eager")(trust, placed)
    leaves = (trust, bias.scale.raw, bias.segment_scale.raw)
    expected = torch.autograd.grad(attend(trust, placed), leaves)
    for got, wanted in zip(torch.autograd.grad(loss, leaves), expected, strict=True):
        torch.testing.assert_close(got, wanted)


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("form", ["box", "gaussian"])
@pytest.mark.parametrize("follow", [False, True])
def test_forward_compiles_to_one_graph(follow, form, dynamic):
    """Wide windows included: their warning is told when nothing is compiled."""
    points, matrices = draw_points(), rig()
    boxes = torch.cat((points, torch.rand(BATCH, QUERIES, 4, dtype=torch.float64) * 3 + 0.5), -1) if follow else None
    bias = camber.AttentionBias(GRID, CAMERA, camera_window=15, form=form)
    trust = torch.rand(BATCH, QUERIES, 2, requires_grad=True)

    def values(points, matrices, trust, boxes):
        return bias(points, matrices, trust, boxes=boxes).windows.value

    compiled = torch.compile(values, fullgraph=True, dynamic=dynamic, backend="aot_eager")
    value = compiled(points, matrices, trust, boxes)
    with pytest.warns(UserWarning, match="covers more than a quarter of map"):
        expected = values(points, matrices, trust, boxes)
    torch.testing.assert_close(value, expected)
    (got,), (wanted,) = (torch.autograd.grad(v.square().sum(), trust) for v in (value, expected))
    torch.testing.assert_close(got, wanted)


def test_petr_has_cameras_alone_and_others_the_grid_alone():
    points, matrices = draw_points(), rig()
    cameras = camber.AttentionBias(None, CAMERA, camera_window=7)(points, matrices, torch.ones(BATCH, QUERIES, 1))
    both = camber.AttentionBias(GRID, CAMERA, camera_window=7)(points, matrices, torch.ones(BATCH, QUERIES, 2))
    assert torch.equal(cameras.materialize(), both.materialize()[..., 1280:])
    grid = camber.AttentionBias(GRID, None)(points, None, torch.ones(BATCH, QUERIES, 1))
    assert torch.equal(grid.materialize(), both.materialize()[..., :1280])


def test_values_may_be_handed_over_in_bfloat16():
    points, matrices = draw_points(), rig()
    bias = camber.AttentionBias(GRID, CAMERA, camera_window=7, value_dtype=torch.bfloat16)
    assert bias(points, matrices, torch.ones(BATCH, QUERIES, 2)).windows.value.dtype == torch.bfloat16


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            {"bev_window": 4},
            "[AttentionBias] bev_window must be odd, so that the window has a centre cell, got 4",
        ),
        ({"form": "round"}, "[AttentionBias] form must be 'box' or 'gaussian', got 'round'"),
        (
            {"sharing": "per_query"},
            "[AttentionBias] sharing must be shared, per_modality, per_layer or per_head, got 'per_query'",
        ),
        ({"point_range": (0, 1)}, "[AttentionBias] point_range must have 6 numbers, got 2"),
        (
            {"clip_schedule": [(5, 1.0), (2, 3.0)]},
            "[AttentionBias] clip_schedule must be sorted by epoch, got epochs [5, 2]",
        ),
        (
            {"windows": False, "locality": True},
            "[AttentionBias] locality must be False without windows, which hold it, got True",
        ),
        (
            {"window_trust": False},
            (
                "[AttentionBias] window_trust must be True without locality (windows=False leaves the windows out), "
                "got False"
            ),
        ),
        ({"clip": -1.0}, "[AttentionBias] clip must be at least 0, got -1.0"),
        (
            {"value_dtype": torch.float16, "clip": 12.0},
            "[AttentionBias] clip must be at most 10 in half precision, where exp overflows beyond 11.09, got 12.0",
        ),
        (
            {"value_dtype": torch.float16, "clip_schedule": [(2, 12.0)]},
            "[AttentionBias] clip must be at most 10 in half precision, where exp overflows beyond 11.09, got 12.0",
        ),
        (
            {"grid": None, "camera": None},
            "[AttentionBias] grid and camera must not both be None: there would be no keys",
        ),
    ],
)
def test_bad_options_are_sentences(options, sentence):
    with pytest.raises(ValueError) as error:
        camber.AttentionBias(**options)
    assert str(error.value) == sentence


def test_bad_inputs_are_sentences():
    points, matrices = draw_points(), rig()
    bias = camber.AttentionBias(GRID, CAMERA, camera_window=7)
    trust = torch.ones(BATCH, QUERIES, 2)
    for call, sentence in [
        (
            lambda: bias(points[0], matrices, trust),
            "[AttentionBias] reference_points must be [B, Q, 3], got [40, 3]",
        ),
        (
            lambda: bias(points, matrices[0], trust),
            "[AttentionBias] lidar2img must be [B, V, 4, 4] with B = 2, got [3, 4, 4]",
        ),
        (lambda: bias(points, None, trust), "[AttentionBias] lidar2img must be [B, V, 4, 4] with B = 2, got None"),
        (lambda: bias(points, matrices, trust[..., :1]), "[AttentionBias] trust must be [B, Q, 2], got [2, 40, 1]"),
        (
            lambda: bias(points, matrices, trust, available=torch.ones(2, 3)),
            "[AttentionBias] available must be bool [B, M] = [2, 4], got torch.float32 [2, 3]",
        ),
        (
            lambda: camber.BevGrid(-54, 54, -54, 54, 0.8125),
            (
                "[BevGrid] range of x must be filled by whole cells, got -54 to 54 m in cells of 0.8125 m "
                "(132.923 cells)"
            ),
        ),
        (lambda: camber.BevGrid(cell=0), "[BevGrid] cell must be above 0 m, got 0"),
        (lambda: camber.CameraMap(rows=0), "[CameraMap] rows must be at least 1, got 0"),
    ]:
        with pytest.raises(ValueError) as error:
            call()
        assert str(error.value) == sentence
