"""Linear layers in 8-bit floating point (FP8, e4m3), for inference.

Rows are scaled by their largest magnitude: rows of activations on the fly, rows of weights once.
The products run on tensor cores that multiply `torch.float8_e4m3fn`, nominally at twice the rate of
bfloat16, which NVIDIA GPUs have from compute capability 8.9 on.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from foveate.ops.backends import choose

from . import reference as _reference

__all__ = [
    "FEATURE_MULTIPLE",
    "MAX_CHANNELS",
    "Float8Rows",
    "float8_linear",
    "multiplies_float8",
    "quantize_rows",
]

MAX_CHANNELS = 16384
"""The largest number of channels that the kernel keeps in registers."""

FEATURE_MULTIPLE = 16
"""What the numbers of features of a layer must be multiples of."""


class Float8Rows(NamedTuple):
    """A matrix in 8-bit floating point.

    Attributes:
        values: `(rows, channels)` `torch.float8_e4m3fn`.
        scales: `(rows,)` float32, the factor by which to multiply the values of each row.
    """

    values: Tensor
    scales: Tensor


def quantize_rows(x: Tensor, *, relu: bool = False, backend: str | None = None) -> Float8Rows:
    """Quantize every row to 8 bits, after dividing it by a scale of its own.

        scale_i = max_j |x_ij| / 448,   values_ij = float8(x_ij / scale_i)

    448 is the largest number of the type. The relative error of a value is at most 2⁻⁴, except
    where it is smaller than the largest of its row by a factor of 2¹⁴ or more. NaN stays NaN.

    Args:
        x: `(rows, channels)`, any floating dtype.
        relu: Whether to replace negative numbers by 0 first.
        backend: "triton" (a GPU kernel), "eager" (any device), "reference" (the definition), or
            "auto": "triton" where it can run, otherwise "eager". If None, the value of the
            environment variable FOVEATE_BACKEND, or "auto" if that is not set. The kernel takes up
            to `MAX_CHANNELS` channels on a GPU that has the type; elsewhere "triton" is "eager".

    Returns:
        The values and their scales; of a row of zeros, or of numbers below 5e-36, the scale is 0.

    Raises:
        ValueError: If x is not a matrix or has no channels, if the backend is unknown, or if it
            cannot run on x.

    Example:
        >>> import torch
        >>> rows = quantize_rows(torch.tensor([[1.0, -0.51, 0.0], [0.0, 0.0, 0.0]]))
        >>> rows.values.float() * rows.scales[:, None]
        tensor([[ 1.0000, -0.5000,  0.0000],
                [ 0.0000,  0.0000,  0.0000]])
    """
    if x.ndim != 2 or x.shape[1] == 0:
        raise ValueError(f"quantize_rows needs a matrix with channels, got shape {tuple(x.shape)}")
    backend = choose(backend, x, widest=None)
    has_type = multiplies_float8(x.device) or not x.is_cuda  # which Triton's interpreter has, too
    if backend == "triton" and has_type and x.shape[1] <= MAX_CHANNELS:
        from . import triton as _triton

        return Float8Rows(*_triton.quantize_rows(x, relu))
    return Float8Rows(*_reference.quantize_rows(x, relu))


def float8_linear(
    x: Float8Rows,
    weight: Float8Rows,
    bias: Tensor | None = None,
    *,
    dtype: torch.dtype = torch.bfloat16,
) -> Tensor:
    """Apply a linear layer to rows in 8-bit floating point.

        out_ij = scale_i · scale_j · Σ_k values_ik · weight_jk + bias_j

    A GPU that multiplies such values does so by PyTorch's product, which accumulates with fewer
    bits than float32 has and rounds to bfloat16; elsewhere it is computed in float32.

    Args:
        x: `(rows, in_features)`.
        weight: `(out_features, in_features)`; both numbers are multiples of 16.
        bias: `(out_features,)`; None for none.
        dtype: The dtype of the output.

    Returns:
        `(rows, out_features)`.

    Raises:
        ValueError: If the numbers of features differ or are not multiples of 16.

    Example:
        >>> import torch
        >>> x = quantize_rows(torch.ones(1, 16))
        >>> float8_linear(x, quantize_rows(torch.eye(16)))[0, :2]
        tensor([1., 1.], dtype=torch.bfloat16)
    """
    (_, features), (out_features, in_features) = x.values.shape, weight.values.shape
    if features != in_features or in_features % FEATURE_MULTIPLE or out_features % FEATURE_MULTIPLE:
        raise ValueError(
            "float8_linear needs as many features on both sides, and multiples of "
            f"{FEATURE_MULTIPLE}: got rows of {features} and a weight {(out_features, in_features)}"
        )
    if not multiplies_float8(x.values.device):
        return _reference.float8_linear(x, weight, bias).to(dtype)
    if bias is not None:
        bias = bias.to(torch.bfloat16)
    product: Tensor = torch._scaled_mm(
        x.values,
        weight.values.t(),
        x.scales[:, None],
        weight.scales[None],
        bias,
        out_dtype=torch.bfloat16,
        use_fast_accum=True,
    )
    return product.to(dtype)


def multiplies_float8(device: torch.device) -> bool:
    """Return whether a device multiplies `torch.float8_e4m3fn` on its tensor cores."""
    if device.type != "cuda" or torch.version.hip is not None:
        return False
    return torch.cuda.get_device_capability(device) >= (8, 9)
