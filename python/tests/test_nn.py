"""camber.nn.MultiheadAttention beside torch's: layouts, masks, gradients, dropout, a bias."""

import pytest
import torch

import camber

WIDTH, HEADS, BATCH, QUERIES, KEYS = 32, 4, 3, 5, 12


def pair(**options):
    torch.manual_seed(0)
    theirs = torch.nn.MultiheadAttention(WIDTH, HEADS, **options)
    return theirs, camber.nn.MultiheadAttention.from_torch(theirs)


def memory(batch_first, widths=(WIDTH, WIDTH, WIDTH)):
    shapes = ((BATCH, n, w) if batch_first else (n, BATCH, w) for n, w in zip((QUERIES, KEYS, KEYS), widths))
    return [torch.randn(*shape, requires_grad=True) for shape in shapes]


def bool_padding():
    mask = torch.zeros(BATCH, KEYS, dtype=torch.bool)
    mask[0, 7:], mask[2, :3] = True, True
    return mask


MASKS = {
    "none": {},
    "bool padding": {"key_padding_mask": bool_padding()},
    "float padding": {"key_padding_mask": torch.linspace(-2, 1, BATCH * KEYS).view(BATCH, KEYS)},
    "infinite padding": {"key_padding_mask": torch.zeros(BATCH, KEYS).masked_fill(bool_padding(), -torch.inf)},
    "bool mask": {"attn_mask": torch.ones(QUERIES, KEYS, dtype=torch.bool).triu(4)},
    "float mask of heads": {"attn_mask": torch.linspace(-1, 2, BATCH * HEADS * QUERIES * KEYS).view(-1, QUERIES, KEYS)},
    "both floats": {
        "attn_mask": torch.linspace(-1, 1, QUERIES * KEYS).view(QUERIES, KEYS),
        "key_padding_mask": torch.linspace(-2, 1, BATCH * KEYS).view(BATCH, KEYS),
    },
    "mask and padding": {
        "attn_mask": torch.ones(QUERIES, KEYS, dtype=torch.bool).triu(4),
        "key_padding_mask": bool_padding(),
    },
}


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("name", MASKS)
def test_output_gradients_and_weights_are_torchs(batch_first, name):
    theirs, ours = pair(batch_first=batch_first)
    inputs = memory(batch_first)
    parameters = [*theirs.parameters(), *inputs]
    results = [module(*inputs, **MASKS[name], need_weights=True) for module in (ours, theirs)]
    for got, wanted in zip(*results, strict=True):
        torch.testing.assert_close(got, wanted, atol=1e-5, rtol=0)
    gradients = [torch.autograd.grad(output.square().sum(), parameters) for output, _ in results]
    for got, wanted in zip(*gradients, strict=True):
        assert (got - wanted).abs().max() <= 1e-5 * wanted.abs().max().clamp(min=1)
    assert ours(*inputs, **MASKS[name])[1] is None
    per_head = [m(*inputs, **MASKS[name], need_weights=True, average_attn_weights=False)[1] for m in (ours, theirs)]
    torch.testing.assert_close(*per_head, atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    "options", [{"kdim": 8, "vdim": 16}, {"bias": False}, {"batch_first": True, "kdim": 8, "vdim": 16}]
)
def test_other_widths_and_no_shift(options):
    theirs, ours = pair(**options)
    inputs = memory(options.get("batch_first", False), (WIDTH, options.get("kdim", WIDTH), options.get("vdim", WIDTH)))
    torch.testing.assert_close(ours(*inputs)[0], theirs(*inputs)[0], atol=1e-5, rtol=0)


@pytest.mark.parametrize("batch_first", [False, True])
def test_inputs_without_a_batch(batch_first):
    theirs, ours = pair(batch_first=batch_first)
    q, k = torch.randn(QUERIES, WIDTH), torch.randn(KEYS, WIDTH)
    padding = bool_padding()[0]
    for got, wanted in zip(ours(q, k, k, padding, True), theirs(q, k, k, padding, True), strict=True):
        torch.testing.assert_close(got, wanted, atol=1e-5, rtol=0)


@pytest.mark.parametrize("batch_first", [False, True])
def test_a_bias_is_that_of_the_dense_mask(batch_first):
    theirs, ours = pair(batch_first=batch_first)
    inputs = memory(batch_first)
    cells = torch.randint(0, 3, (BATCH, QUERIES, 1, 2))
    strength = torch.randn(BATCH, QUERIES, 1, requires_grad=True)
    bias = camber.StructuredBias.from_windows(cells, 3, [(4, 3)], strength)
    dense = bias.materialize().expand(BATCH, HEADS, QUERIES, KEYS).flatten(0, 1)
    wanted, wanted_weights = theirs(*inputs, attn_mask=dense)
    output, weights = ours(*inputs, bias=bias, need_weights=True)
    torch.testing.assert_close(output, wanted, atol=1e-5, rtol=0)
    torch.testing.assert_close(weights, wanted_weights, atol=1e-5, rtol=0)
    got, expected = (torch.autograd.grad(o.square().sum(), strength, retain_graph=True)[0] for o in (output, wanted))
    torch.testing.assert_close(got, expected, atol=1e-4, rtol=1e-4)


def test_dropout_follows_the_seed_and_the_mode():
    _, ours = pair(dropout=0.5)
    inputs = memory(False)
    drawn = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        drawn.append(ours(*inputs)[0])
    assert torch.equal(drawn[0], drawn[1]) and not torch.equal(drawn[0], drawn[2])
    ours.eval()
    assert torch.equal(ours(*inputs)[0], ours(*inputs)[0])
    mean = torch.stack([ours.train()(*inputs)[0].detach() for _ in range(2000)]).mean(0)
    assert (mean - ours.eval()(*inputs)[0]).abs().max() < 0.05


def test_a_row_without_keys_is_zero_before_the_output_projection():
    _, ours = pair()
    output = ours(*memory(False), key_padding_mask=torch.ones(BATCH, KEYS, dtype=torch.bool))[0]
    assert torch.equal(output, ours.out_proj.bias.expand_as(output))


def test_the_parameters_are_shared_and_the_state_is_torchs():
    theirs, ours = pair()
    assert list(theirs.state_dict()) == list(ours.state_dict())
    with torch.no_grad():
        theirs.in_proj_weight.mul_(2)
    inputs = memory(False)
    torch.testing.assert_close(ours(*inputs)[0], theirs(*inputs)[0], atol=1e-5, rtol=0)
    ours.eval()
    assert theirs.training


def test_inside_torchs_own_layers():
    torch.manual_seed(0)
    layer = torch.nn.TransformerDecoderLayer(WIDTH, HEADS, 64, dropout=0.0)
    q, k, _ = memory(False)
    causal = torch.nn.Transformer.generate_square_subsequent_mask(QUERIES)
    wanted = layer(q, k, tgt_mask=causal, tgt_is_causal=True)
    for name in ("self_attn", "multihead_attn"):
        setattr(layer, name, camber.nn.MultiheadAttention.from_torch(getattr(layer, name)))
    torch.testing.assert_close(layer(q, k, tgt_mask=causal, tgt_is_causal=True), wanted, atol=1e-5, rtol=0)


def test_sentences():
    _, ours = pair()
    inputs = memory(False)
    with pytest.raises(ValueError, match=r"attn_mask must be \[Q, K\] = \[5, 12\] or .*, got \[2, 2\]"):
        ours(*inputs, attn_mask=torch.zeros(2, 2))
    with pytest.raises(ValueError, match=r"key_padding_mask must be \[B, K\] = \[3, 12\], got \[12, 3\]"):
        ours(*inputs, key_padding_mask=torch.zeros(KEYS, BATCH))
    with pytest.raises(ValueError, match="attn_mask must be given when is_causal is set"):
        ours(*inputs, is_causal=True)
    with pytest.raises(ValueError, match="add_bias_kv and add_zero_attn must be False"):
        camber.nn.MultiheadAttention.from_torch(torch.nn.MultiheadAttention(8, 2, add_bias_kv=True))
    with pytest.raises(TypeError, match="must be a torch.nn.MultiheadAttention, got Linear"):
        camber.nn.MultiheadAttention.from_torch(torch.nn.Linear(2, 2))
    with pytest.raises(TypeError, match="bias must be a StructuredBias"):
        ours(*inputs, bias=torch.zeros(QUERIES, KEYS))


def test_structured_bias_behind_sdpas_signature():
    q, k, v = (torch.randn(BATCH, HEADS, n, 8) for n in (QUERIES, KEYS, KEYS))
    bias = camber.StructuredBias.from_windows(
        torch.randint(0, 3, (BATCH, QUERIES, 1, 2)), 3, [(4, 3)], torch.randn(BATCH, QUERIES, 1)
    )
    wanted = torch.nn.functional.scaled_dot_product_attention(q, k, v, bias.materialize())
    torch.testing.assert_close(camber.scaled_dot_product_attention(q, k, v, bias), wanted, atol=1e-5, rtol=0)
    causal = bias.materialize().masked_fill(torch.ones(QUERIES, KEYS, dtype=torch.bool).triu(1), -torch.inf)
    wanted = torch.nn.functional.scaled_dot_product_attention(q, k, v, causal)
    got = camber.scaled_dot_product_attention(q, k, v, bias, is_causal=True)
    torch.testing.assert_close(got, wanted, atol=1e-5, rtol=0)


def test_projection_of_a_model():
    model = torch.nn.ModuleDict(
        {"head": torch.nn.Linear(2, 2), "scale": camber.BoundedScale(init=2.5, min=0.5, max=5.0)}
    )
    with torch.no_grad():
        model["scale"].raw.fill_(7.0)
    assert camber.project_scales(model) == 1 and model["scale"].raw.item() == 5.0
    with pytest.raises(TypeError, match=r"must be a torch.nn.Module or a torch.optim.Optimizer, got list"):
        camber.project_scales([model])
