"""Matrix products by QuACK, a library of CUDA kernels for Hopper GPUs.

Where a product has no more features to add up than to store, its kernels mostly take less time than
those of cuBLAS, since two groups of warps take turns at computing and storing, and they can end in
a mask. A kernel is compiled when it is first used, in a few seconds, and kept on disk by QuACK.
ReLU of NaN is 0 in them.

QuACK tells the functions below apart by their names when it looks for a kernel on disk: a function
that computes something new needs a new name.
"""

from typing import Any

import torch
from quack.activation import drelu, relu
from quack.epilogue import gemm_epilogue
from quack.epilogue.ops import RowVecLoad, Scalar
from quack.gemm_config import GemmConfig
from quack.gemm_interface import gemm_norm_act, gemm_rms
from torch import Tensor

_CONFIG = GemmConfig(
    tile_m=128, tile_n=192, pingpong=True, cluster_m=2, cluster_n=1, is_dynamic_persistent=False
)
"""The fastest of seven, or at most 1.3 % slower, for all products of HDT at 16,384 rows."""


def product(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Compute x · Wᵀ + bias; see `products.product`."""
    if bias is None:
        return _run(_unchanged, x, weight)
    return _run(_with_bias, x, weight, bias=bias.detach()[None])


def product_relu(x: Tensor, weight: Tensor) -> Tensor:
    """Compute max(0, x · Wᵀ)."""
    return _run(_with_relu, x, weight)


def product_where_positive(x: Tensor, weight: Tensor, states: Tensor, scale: float) -> Tensor:
    """Compute scale · x · Wᵀ where other states are positive, else 0."""
    return _run(_where_positive, x, weight, states.detach(), scale=scale)


def add_product(residual: Tensor, x: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """Compute s = residual + x · Wᵀ and 1 / √(mean(s²) + eps); see `products.add_product`."""
    operands = x.detach(), weight.detach().t()
    outputs: tuple[Tensor, Tensor] = gemm_rms(
        *operands, C=residual.detach(), eps=eps, config=_CONFIG, tuned=False
    )
    return outputs


def deferred_product(x: Tensor, scales: Tensor, weight: Tensor, activation: str | None) -> Tensor:
    """Compute scales · (x · Wᵀ), and an activation; see `products.deferred_product`."""
    operands = x.detach(), weight.detach().t()
    output: Tensor
    _, output = gemm_norm_act(
        *operands, rstd=scales, activation=activation, config=_CONFIG, tuned=False
    )
    return output


def _run(
    epilogue: Any, x: Tensor, weight: Tensor, states: Tensor | None = None, **operands: Any
) -> Tensor:
    output = torch.empty(len(x), len(weight), dtype=x.dtype, device=x.device)
    epilogue(
        x.detach(),
        weight.detach().t(),
        states,
        out={"D": output},
        config=_CONFIG,
        tuned=False,
        **operands,
    )
    return output


# Each is called with an element of the product, `acc`, and returns the element to store as "D".


@gemm_epilogue()
def _unchanged(acc: Any) -> dict[str, Any]:
    return {"D": acc}


@gemm_epilogue(ops={"bias": RowVecLoad("bias")})
def _with_bias(acc: Any, bias: Any) -> dict[str, Any]:
    return {"D": acc + bias}


@gemm_epilogue()
def _with_relu(acc: Any) -> dict[str, Any]:
    return {"D": relu(acc)}


@gemm_epilogue(ops={"scale": Scalar("scale")})
def _where_positive(acc: Any, c: Any, scale: Any) -> dict[str, Any]:
    gradient, _ = drelu(c, acc)
    return {"D": gradient * scale}
