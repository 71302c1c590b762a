"""Random calls of every operator through the dispatcher: other shapes, strides, offsets, types and contents.

Each ends in an answer or in an error, the other way to lay out the same numbers gives the same bits, and whatever a call was
given, the next good call answers as before. CAMBER_OPERATOR_CALLS sets the number of calls for each operator.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from test_operator_errors import GOOD, operators
from torch import Tensor

CALLS = int(os.environ.get("CAMBER_OPERATOR_CALLS", "150"))
ERRORS = (RuntimeError, ValueError, IndexError, NotImplementedError, TypeError, OverflowError)
LARGEST = 2**63 - 1


def sparse_indices_arguments() -> dict[str, Any]:
    coordinates = torch.tensor([[0, 1, 1, 1], [0, 2, 1, 1], [1, 0, 0, 0], [1, 3, 3, 3]], dtype=torch.int32)
    ones = [1, 1, 1]
    return {
        "coordinates": coordinates,
        "spatial_shape": [4, 4, 4],
        "batch": 2,
        "kernel": [3, 3, 3],
        "stride": ones,
        "padding": ones,
        "dilation": ones,
        "submanifold": True,
    }


EVERY = {**GOOD, "build_sparse_indices": sparse_indices_arguments}


def laid_out_anew(tensor: Tensor, dice: random.Random) -> Tensor:
    """The same numbers behind other strides, or at an offset in a longer storage."""
    if tensor.dim() == 0:
        return tensor
    kind = dice.randrange(3)
    if kind == 0:
        axes = list(range(tensor.dim()))
        dice.shuffle(axes)
        return tensor.permute(axes).contiguous().permute([axes.index(axis) for axis in range(tensor.dim())])
    longer = torch.zeros([size * 2 + 1 for size in tensor.shape], dtype=tensor.dtype)
    view = longer[tuple(slice(1, 2 * size + 1, 2) for size in tensor.shape)]
    if kind == 1:
        return view.copy_(tensor)
    offset = torch.zeros(tensor.numel() + 3, dtype=tensor.dtype)[3:]
    return offset.copy_(tensor.reshape(-1)).view(tensor.shape)


def other_shape(tensor: Tensor, dice: random.Random) -> Tensor:
    changes: list[Callable[[Tensor], Tensor]] = [
        lambda t: t.unsqueeze(dice.randrange(t.dim() + 1)),
        lambda t: t.flatten(),
        lambda t: t[:0],
        lambda t: t[: max(1, t.shape[0] - 1)],
        lambda t: torch.cat([t, t]),
        lambda t: t[:1].expand(3, *t.shape[1:]),  # a stride of 0
        lambda t: t.transpose(0, -1),
        lambda t: t.sum(),
        lambda t: t.new_empty(0),
        lambda t: t.new_zeros([0, *t.shape[1:]]),
    ]
    return dice.choice(changes)(tensor) if tensor.dim() > 0 else tensor.expand(2)


def other_content(tensor: Tensor, dice: random.Random) -> Tensor:
    copy = tensor.clone(memory_format=torch.contiguous_format)
    if copy.numel() == 0:
        return copy
    at = dice.randrange(copy.numel())
    if copy.is_floating_point():
        value: float = dice.choice([float("nan"), float("inf"), float("-inf"), 0.0, 1e38, -1e38, 1e-45])
    elif copy.dtype == torch.bool:
        value = float(dice.randrange(2))
    else:
        most = torch.iinfo(copy.dtype).max
        value = dice.choice([-1, 0, 1, 2, 7, most, -most - 1, most // 2])
    copy.view(-1)[at if dice.random() < 0.5 else slice(None)] = value
    return copy


def other_type(tensor: Tensor, dice: random.Random) -> Tensor:
    types = (torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int32, torch.int64, torch.bool)
    return tensor.nan_to_num(0).to(dice.choice(types))


def other_value(value: Any, dice: random.Random) -> Any:
    """Anything that the schema lets through, and some that it does not."""
    if isinstance(value, Tensor):
        change = dice.choice([other_shape, other_content, other_content, other_type, laid_out_anew])
        return change(value, dice) if dice.random() < 0.97 else None
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return dice.choice([-1, 0, 1, 2, 5, 1000, LARGEST, -LARGEST - 1])
    if isinstance(value, float):
        return dice.choice([-1.0, 0.0, 0.3, 1.0, 2.0, float("nan"), float("inf"), 1e300])
    if isinstance(value, str):
        return dice.choice(["auto", "fused", "streamed", "corrected", "reference", "", "other"])
    if isinstance(value, list):
        changed = list(value)
        kind = dice.randrange(3)
        if kind == 0 and changed:
            changed.pop()
        elif kind == 1:
            changed += changed[:1]
        elif changed:
            index = dice.randrange(len(changed))
            changed[index] = (
                not changed[index] if isinstance(changed[index], bool) else other_value(changed[index], dice)
            )
        return changed
    return dice.choice([None, torch.randn(2, 2), torch.ones(1, dtype=torch.bool), 0.5, 1e300])


def tensors_of(answer: Any) -> list[Tensor]:
    parts = answer if isinstance(answer, tuple | list) else (answer,)
    return [part for part in parts if isinstance(part, Tensor)]


def same_bits(first: Any, second: Any) -> bool:
    pairs = zip(tensors_of(first), tensors_of(second), strict=True)
    return all(torch.equal(a.nan_to_num(7), b.nan_to_num(7)) and torch.equal(a.isnan(), b.isnan()) for a, b in pairs)


@pytest.mark.parametrize("name", EVERY)
def test_ends_in_an_answer_or_an_error(name: str) -> None:
    torch.manual_seed(3)
    call, good = getattr(operators, name), EVERY[name]()
    expected = call(**good)
    dice = random.Random(f"operators {name}")
    for _ in range(CALLS):
        given = dict(good)
        for argument in dice.sample(list(given), dice.choice([1, 1, 2, 3])):
            given[argument] = other_value(given[argument], dice)
        try:
            for tensor in tensors_of(call(**given)):
                tensor.double().sum().item()  # every element can be read
        except ERRORS as error:
            assert str(error), given
    assert same_bits(call(**good), expected)


@pytest.mark.parametrize("name", EVERY)
def test_the_layout_of_its_arguments_changes_no_bit(name: str) -> None:
    torch.manual_seed(4)
    call, good = getattr(operators, name), EVERY[name]()
    expected = call(**good)
    dice = random.Random(f"layouts {name}")
    for _ in range(CALLS // 5):
        given = {
            key: laid_out_anew(value, dice) if isinstance(value, Tensor) and dice.random() < 0.6 else value
            for key, value in good.items()
        }
        assert same_bits(call(**given), expected), {
            key: value.stride() for key, value in given.items() if isinstance(value, Tensor)
        }
