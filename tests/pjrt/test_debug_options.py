"""Which options are taken by name, and of which values: those that jaxlib takes."""

import struct

import pytest

from xloom.pjrt import debug_options
from xloom.pjrt.debug_options import overrides_of
from xloom.pjrt.error import PjrtError
from xloom.pjrt.protobuf_wire_format import embedded, scalar


def option(name, value):
    match value:
        case str():
            encoded = embedded(1, value.encode())
        case bool():
            encoded = scalar(2, value)
        case int():
            encoded = scalar(3, value % (1 << 64))
        case _:
            encoded = bytes([4 << 3 | 1]) + struct.pack("<d", value)
    return [embedded(1, name.encode()) + embedded(2, encoded)]


TAKEN = [
    ("xla_embed_ir_in_executable", [True, False, "True", "False"], ["true", "1", "", 1, 1.5]),
    ("xla_backend_optimization_level", [2, -1, " +2 "], ["a", "1.5", "0x10", "", True, 1.0, 1 << 31, "99999999999"]),
    ("xla_gpu_gemm_rewrite_size_threshold", [1 << 40, "5"], [True, 1.5, "9223372036854775808", "1_0"]),
    ("xla_gpu_autotune_gemm_rtol", [0.5, "0.5", " 1", "1e400", "-NaN"], ["x", "1f", "", 1, True, 1e300]),
    ("xla_dump_hlo_pass_re", ["a", ""], [1, 1.0, True]),
    ("xla_disable_hlo_passes", ["a,,b", ""], [1, True]),
    ("xla_cpu_scheduler_type", ["CPU_SCHEDULER_TYPE_DEFAULT", "1", 77], ["cpu_scheduler_type_default", "", True]),
    ("xla_gpu_enable_command_buffer", ["FUSION,CUBLAS", "", 1], ["bad", "FUSION, CUBLAS"]),
    ("xla_backend_extra_options", [], ["a=b", 1]),
]


@pytest.mark.parametrize("name, fit, unfit", TAKEN)
def test_values_of_the_type_are_taken_and_others_are_mistakes(name, fit, unfit):
    for value in fit:
        (read,) = overrides_of(option(name, value)).values()
        assert (read, type(read)) == (value, type(value))
    for value in unfit:
        with pytest.raises(PjrtError, match=f"While setting option {name}, '.*' is not a valid .* value"):
            overrides_of(option(name, value))


@pytest.mark.parametrize("name", ["something", "xla_something"])
def test_names_that_are_none_of_xla_s_are_mistakes(name):
    with pytest.raises(PjrtError, match=f"No such compile option: '{name}'"):
        overrides_of(option(name, True))


def test_without_jaxlib_names_like_xla_s_are_taken(monkeypatch):
    monkeypatch.setattr(debug_options, "xla_options", dict)
    assert overrides_of(option("xla_something", 0.5)) == {"xla_something": 0.5}
    with pytest.raises(PjrtError, match="No such compile option: 'something'"):
        overrides_of(option("something", True))
