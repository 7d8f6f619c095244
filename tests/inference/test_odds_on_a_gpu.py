"""The kernels of a GPU for belief propagation do what single operations do.

Without a GPU Triton's interpreter runs them on the processor.
"""

import os
import subprocess
import sys

import pytest
from numpy.testing import assert_allclose, assert_array_equal

pytestmark = pytest.mark.arrays
torch = pytest.importorskip("torch")
pytest.importorskip("triton")

from _libraries import GPU  # noqa: E402

from skrbm.arrays import to_numpy  # noqa: E402
from skrbm.inference import _odds_triton, _propagation, propagate  # noqa: E402


def instances(m, n, dtype):
    """Return weights and the fields of four instances."""
    generator = torch.Generator().manual_seed(m)
    parts = (torch.randn(shape, generator=generator) for shape in ((m, n), (4, n), (4, m)))
    W, b, c = (part.to("cuda" if GPU else "cpu", torch.float64) for part in parts)
    return (0.4 * W).to(dtype), b, c


@pytest.mark.parametrize("damping", [0.0, 0.3])
@pytest.mark.parametrize("m, n", [(19, 30), (1, 1)])
@pytest.mark.parametrize("product", ["sum", "max", "mixed"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_kernels_do_what_single_operations_do(monkeypatch, dtype, product, m, n, damping):
    # Few sweeps: rounding grows from sweep to sweep where max-product does not converge.
    options = {"product": product, "max_iter": 4, "tol": 1e-6, "damping": damping}
    options |= {"log_partition": True, "pairs": True}
    monkeypatch.setattr(_propagation, "kernels_for", lambda odds: None)
    wanted = propagate(*instances(m, n, dtype), **options)
    monkeypatch.setattr(_propagation, "kernels_for", lambda odds: _odds_triton)
    found = propagate(*instances(m, n, dtype), **options)
    assert_array_equal(found.n_iter, wanted.n_iter)
    assert wanted.n_iter.max() > 1
    tol = 1e-4 if dtype == torch.float32 else 1e-11
    for name in ("visible", "hidden", "residual", "log_partition", "pairs"):
        one, other = (to_numpy(getattr(result, name)) for result in (found, wanted))
        assert_allclose(one, other, rtol=tol, atol=tol)


@pytest.mark.skipif(not GPU, reason="parts wait for each other, and the interpreter runs one")
@pytest.mark.parametrize("n_rows", [1, 3, 50])
@pytest.mark.parametrize("product", ["sum", "max", "mixed"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_parts_of_an_instance_do_what_one_program_does(monkeypatch, dtype, product, n_rows):
    generator = torch.Generator().manual_seed(0)
    shapes = (205, 700), (n_rows, 700), (n_rows, 205)
    W, b, c = (torch.randn(shape, generator=generator).to("cuda") for shape in shapes)
    # Rounding grows from sweep to sweep where max-product does not converge.
    options = {"product": product, "max_iter": 4 if product == "max" else 30, "tol": 1e-5}
    parts = (0.05 * W).to(dtype), b, c
    found = propagate(*parts, **options)
    assert found.n_iter.max() > 2
    monkeypatch.setattr(_odds_triton, "_n_parts", lambda *args: 1)
    wanted = propagate(*parts, **options)
    assert_array_equal(found.n_iter, wanted.n_iter)
    tol = 1e-4 if dtype == torch.float32 else 1e-11
    for name in ("visible", "hidden", "residual"):
        one, other = (to_numpy(getattr(result, name)) for result in (found, wanted))
        assert_allclose(one, other, rtol=tol, atol=tol)


def test_beliefs_that_move_where_means_stand_still_count(monkeypatch):
    """All units are decided by their fields; what moves is by how much."""
    W, b, c = instances(6, 8, torch.float64)
    fields = W, 60 + b, c - 60
    residuals = []
    for module in (None, _odds_triton):
        monkeypatch.setattr(_propagation, "kernels_for", lambda odds, module=module: module)
        residuals.append(propagate(*fields, max_iter=1, tol=0.0).residual)
    assert residuals[0].min() > 0.1  # hidden beliefs come from 0, and their means stay 0
    assert_allclose(residuals[1], residuals[0], rtol=1e-10)


def test_weights_may_lie_in_memory_in_any_order(monkeypatch):
    monkeypatch.setattr(_propagation, "kernels_for", lambda odds: _odds_triton)
    W, b, c = instances(7, 5, torch.float64)
    found = [propagate(V, b, c, pairs=True) for V in (W, W.T.contiguous().T)]
    assert_array_equal(*(to_numpy(result.visible) for result in found))
    assert_array_equal(*(to_numpy(result.pairs) for result in found))


def test_rows_that_have_converged_rest(monkeypatch):
    """What a row has found does not depend on how long the others take."""
    monkeypatch.setattr(_propagation, "kernels_for", lambda odds: _odds_triton)
    W, b, c = instances(9, 12, torch.float64)
    W = 3 * W
    b = b * torch.tensor([[0.1], [1.0], [3.0], [10.0]], device=b.device)
    together = propagate(W, b, c, tol=1e-4, max_iter=10)
    assert len(set(together.n_iter)) > 1
    for i in range(4):
        alone = propagate(W, b[i], c[i], tol=1e-4, max_iter=10)
        assert together.n_iter[i] == alone.n_iter[0]
        assert_array_equal(to_numpy(together.visible[i]), to_numpy(alone.visible[0]))


COMPILES = """
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from skrbm.inference import _odds_triton

def compiled(kernel, real, constants):
    def type_of(name):
        if name in constants:
            return "constexpr"
        if name in ("R", "E"):
            return "*" + real
        if name in ("limit", "tol", "large"):
            return "fp32"
        if name == "counts":
            return "*i32"
        return "i32" if name.startswith("n") and name != "n_iter" else "*fp64"
    source = ASTSource(kernel, {name: type_of(name) for name in kernel.arg_names}, constants)
    assert triton.compile(source, target=GPUTarget("cuda", 90, 32)).asm["cubin"]

sizes = dict(ROWS=4, FACTORS=2, OF_ROWS=2, N=16, M=16)
for real, way, keep, ones in (("fp32", 0, 0.0, ()), ("fp64", 2, 0.3, ("n_hidden", "n_new"))):
    sweep = dict(sizes, KEEP=keep, TO_HIDDEN=way, TO_VISIBLE=0, **dict.fromkeys(ones, 1))
    for is_split in (True, False):
        compiled(_odds_triton._sweep, real, sweep | {"IS_SPLIT": is_split})
    compiled(_odds_triton._sum_pairs, real, dict(ROWS=8, COLUMNS=16))
"""


@pytest.mark.skipif(GPU, reason="all tests compile them there")
def test_kernels_compile_for_a_gpu():
    """The interpreter takes what the compiler does not: other types after a branch or a loop."""
    environ = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    subprocess.run([sys.executable, "-c", COMPILES], env=environ, check=True, timeout=300)
