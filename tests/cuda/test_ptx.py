"""PTX and ptxas: what is refused. What kernels are as machine code: `test_machine_code.py`."""

import pytest

import xloom as xl
from tests.cuda.kernel_programs import PROGRAMS
from xloom.cuda.lower import lowered
from xloom.cuda.ptxas import assembled, tool
from xloom.errors import LoweringError
from xloom.llvm.target import target_named


@pytest.mark.skipif(tool("ptxas") is None, reason="ptxas comes with the extra `cuda`")
def test_what_is_no_ptx_is_refused():
    with pytest.raises(LoweringError, match="ptxas"):
        assembled(".version 7.0\n.target sm_80\nnonsense", target_named("sm_80"))


def test_a_processor_is_no_gpu():
    with pytest.raises(LoweringError, match="is no GPU"):
        lowered(xl.parse(PROGRAMS["f32 add"]), target_named("x86-64-v3"))
