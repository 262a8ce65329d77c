"""Kernels in Triton's interpreter, which is chosen before triton is imported."""

import inspect
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace

import pytest

import tests.profiles  # noqa: F401


def run_interpreted(tests: Iterable[Path]) -> None:
    """Run files of tests in a new process, in the interpreter."""
    pytest.importorskip("triton")
    # Neither fixtures nor other plugins are needed, and they take seconds to import.
    options = ["--quiet", "-p", "no:cacheprovider", "--noconftest", "-p", "tests.interpreter"]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *map(str, tests)],
        env=os.environ
        | {"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[1],
    )
    assert run.returncode == 0, run.stdout[-6000:] + run.stderr[-2000:]
    assert " passed" in run.stdout


def pytest_configure() -> None:
    """Let the interpreter do once what it does again and again, as the plugin of that process.

    Most of its time goes into types and shapes rather than into arithmetic.
    """
    from triton.language import core
    from triton.runtime import interpreter

    patch, patched = interpreter._patch_lang, set()

    def patch_once(function):
        if function.__module__ not in patched:
            patched.add(function.__module__)
            patch(function)
        return SimpleNamespace(restore=lambda: None)

    # It patches Triton's language whenever one kernel calls another.
    interpreter._patch_lang = patch_once
    # It computes sums and products of integers again in 64 bits, for an assertion that only
    # kernels compiled with `debug` make.
    interpreter.interpreter_builder.options = interpreter.InterpreterOptions(
        sanitize_overflow=False
    )
    interpreter._get_np_dtype = _by_name(interpreter._get_np_dtype)
    interpreter._patch_attr = _patch_attr
    _share_shapes(core)
    _remember_operands(interpreter.TritonSemantic, core.tensor)


def _by_name(function):
    """Remember what a function returns for each type."""
    known = {}

    def remembered(dtype):
        if dtype.name not in known:
            known[dtype.name] = function(dtype)
        return known[dtype.name]

    return remembered


def _patch_attr(owner, name, member, builder, scope) -> None:
    """Give a function of Triton's language what it computes with."""
    from triton.runtime.interpreter import interpreter_semantic

    function = inspect.unwrap(member)

    def interpreted(*args, **named):
        named["_semantic"] = interpreter_semantic
        return function(*args, **named)

    scope.set_attr(owner, name, interpreted)


def _share_shapes(core) -> None:
    """Check and wrap each shape of a block once, rather than for each block."""
    make_type, make_tensor = core.block_type.__init__, core.tensor.__init__
    types, shapes = {}, {}

    def block_type(self, element_ty, shape):
        key = element_ty.name, *(getattr(size, "value", size) for size in shape)
        if key in types:
            vars(self).update(types[key], element_ty=element_ty)
        else:
            make_type(self, element_ty, shape)
            types[key] = dict(vars(self))

    def tensor(self, handle, type):
        if type.name in shapes:
            self.handle, self.type, self.dtype = handle, type, type.scalar
            self.shape, self.numel = shapes[type.name]
        else:
            make_tensor(self, handle, type)
            shapes[type.name] = self.shape, self.numel

    core.block_type.__init__, core.tensor.__init__ = block_type, tensor


def _remember_operands(semantic, tensor) -> None:
    """Find out once what becomes of two operands: of the same types, or of the same numbers.

    Operands that must be brought to other types are looked at each time, as are those that do not
    fit together.
    """
    check, broadcast = semantic.binary_op_type_checking_impl, semantic.broadcast_impl_value
    constants, shapes = {}, {}

    def name(operand):
        return operand.type.name if isinstance(operand, tensor) else repr(operand)

    def check_once(self, lhs, rhs, *options, **named):
        key = name(lhs), name(rhs), options, *named.items()
        if key in constants:
            left, right = constants[key]
            lhs, rhs = lhs if left is None else left, rhs if right is None else right
            return broadcast_once(self, lhs, rhs)
        operands = left, right = check(self, lhs, rhs, *options, **named)
        number, other = not isinstance(lhs, tensor), not isinstance(rhs, tensor)
        if (number or left.dtype == lhs.dtype) and (other or right.dtype == rhs.dtype):
            constants[key] = left if number else None, right if other else None
        return operands

    def broadcast_once(self, lhs, rhs):
        key = lhs.type.name, rhs.type.name
        if key in shapes:
            left, right = shapes[key]
            lhs = lhs if left is None else spread(self, lhs, *left)
            return lhs, rhs if right is None else spread(self, rhs, *right)
        operands = left, right = broadcast(self, lhs, rhs)
        shapes[key] = (
            None if left is lhs else (left.type, left.handle.data.shape),
            None if right is rhs else (right.type, right.handle.data.shape),
        )
        return operands

    def spread(self, operand, type, shape):
        if operand.type.is_block():
            handle = self.builder.create_broadcast(operand.handle, shape)
        else:
            handle = self.builder.create_splat(type, operand.handle)
        return tensor(handle, type)

    semantic.binary_op_type_checking_impl = check_once
    semantic.broadcast_impl_value = broadcast_once
