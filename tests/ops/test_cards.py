import json
import os
import subprocess
import sys

import pytest
import torch

from foveate.ops import backends, precision
from foveate.ops._triton.card import Card
from foveate.ops.backends import choose
from foveate.ops.precision import supported_dtype
from tests.profiles import NIGHTLY

pytest.importorskip("triton")
from tests.ops.cards import CARDS

SOME = [
    ("sm_75", "float16", "64"),
    ("sm_86", "float32", "128", "--ops", "window"),
]
ALL = [
    *(
        (card, dtype, "32", "64", "80", "128")
        for card in CARDS
        for dtype in ("float16", "bfloat16", "float32")
        if (card, dtype) != ("sm_75", "bfloat16")
    ),
    ("sm_86", "bfloat16", "128", "--all-terms"),  # of the cards with the least shared memory
    ("sm_86", "float32", "128", "--all-terms"),
]


@pytest.mark.parametrize("arguments", ALL if NIGHTLY else SOME, ids=" ".join)
def test_kernels_fit_into_the_shared_memory_of_a_card(arguments):
    environment = {name: x for name, x in os.environ.items() if name != "TRITON_INTERPRET"}
    command = [sys.executable, "-m", "tests.ops.cards", *arguments]
    run = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[-3000:]
    kernels = [json.loads(line) for line in run.stdout.splitlines()]
    limit = CARDS[arguments[0]].shared_memory
    assert len(kernels) > 3
    assert not [kernel for kernel in kernels if kernel["shared_memory"] > limit]


class OnGPU(torch.Tensor):
    is_cuda = True


@pytest.mark.parametrize(
    ("card", "dtype", "shared_memory", "reason"),
    [
        (Card((8, 6), 101_376), torch.bfloat16, 101_376, None),
        (Card((8, 6), 101_376), torch.float32, 101_377, "need 101377 bytes of shared memory"),
        (Card((7, 5), 65_536), torch.float16, 0, "need .* capability 8.0, and this one has 7.5"),
    ],
)
def test_a_card_that_lacks_something_takes_the_eager_path(
    monkeypatch, card, dtype, shared_memory, reason
):
    monkeypatch.setattr(backends, "card_of", lambda _: card)
    x = torch.zeros(4, 2, 64, dtype=dtype).as_subclass(OnGPU)
    if reason is None:
        assert choose("auto", x, shared_memory=shared_memory) == "triton"
        return
    with pytest.warns(UserWarning, match=f"no kernels run, but plain PyTorch: .*{reason}"):
        assert choose("auto", x, shared_memory=shared_memory) == "eager"
    with pytest.raises(ValueError, match=f'"triton" cannot run: .*{reason}'):
        choose("triton", x, shared_memory=shared_memory)


@pytest.mark.parametrize(
    ("capability", "dtype", "chosen"),
    [
        ((7, 5), torch.float16, "triton"),
        ((7, 5), torch.bfloat16, "eager"),
        ((7, 0), torch.float16, "eager"),
    ],
)
@pytest.mark.filterwarnings("ignore:no kernels run")
def test_kernels_without_products_run_on_older_cards(monkeypatch, capability, dtype, chosen):
    monkeypatch.setattr(backends, "card_of", lambda _: Card(capability, 65_536))
    x = torch.zeros(4, 64, dtype=dtype).as_subclass(OnGPU)
    assert choose("auto", x, widest=None) == chosen


def test_bfloat16_is_float16_on_a_card_without_it(monkeypatch):
    device = torch.device("cuda")
    monkeypatch.setattr(precision, "card_of", lambda _: Card((7, 5), 65_536))
    assert supported_dtype(torch.float32, device) == torch.float32
    with pytest.warns(UserWarning, match=r"has no torch.bfloat16, .* float16 is used"):
        assert supported_dtype(torch.bfloat16, device) == torch.float16
    monkeypatch.setattr(precision, "card_of", lambda _: Card((8, 6), 101_376))
    assert supported_dtype(torch.bfloat16, device) == torch.bfloat16
