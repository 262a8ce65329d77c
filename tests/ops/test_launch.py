import pytest
import torch

pytest.importorskip("triton")
from foveate.ops._triton import launch as launches


class Kernel:
    """Stands for a Triton kernel: notes what reaches it, and what reaches what it compiled."""

    def __init__(self):
        self.fn = lambda: None
        self.chosen, self.direct = [], []

    def __getitem__(self, grid):
        def run(*arguments, **options):
            self.chosen.append((grid, arguments, options))
            return Compiled(self.direct)

        return run


class Compiled:
    def __init__(self, calls):
        self.calls = calls

    def __getitem__(self, grid):
        return lambda *arguments: self.calls.append((grid, arguments))


def test_the_second_launch_goes_to_what_the_first_compiled():
    kernel, x, y = Kernel(), torch.zeros(64), torch.zeros(32)
    launches.launch(kernel, 3, (x, None), (32, 64), (7, 0.5), (True,), num_warps=2)
    launches.launch(kernel, 5, (y, None), (16, 64), (9, 0.25), (True,), num_warps=2)
    assert kernel.chosen == [((3, 1, 1), (x, None, 32, 64, 7, 0.5, True), {"num_warps": 2})]
    assert kernel.direct == [((5, 1, 1), (y.data_ptr(), 0, 16, 64, 9, 0.25, True))]


@pytest.mark.parametrize(
    "change",
    [
        {"tensors": (torch.zeros(64, dtype=torch.half),)},
        {"tensors": (None,)},
        {"tensors": (torch.zeros(65)[1:],)},
        {"strides": (24,)},
        {"strides": (1,)},
        {"strides": (1 << 31,)},
        {"numbers": (1 << 31,)},
        {"constants": (2,)},
        {"num_warps": 8},
    ],
)
def test_what_may_need_another_kernel_is_left_to_triton(change):
    kernel = Kernel()
    usual = {"tensors": (torch.zeros(64),), "strides": (16,), "numbers": (7,), "constants": (1,)}
    launches.launch(kernel, 1, **usual, num_warps=4)
    launches.launch(kernel, 1, **{**usual, "num_warps": 4, **change})
    assert len(kernel.chosen) == 2
    assert kernel.direct == []
