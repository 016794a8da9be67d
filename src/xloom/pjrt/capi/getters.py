"""The entries that frameworks call with every dispatch and that only read: native code over cells in C memory.

A buffer's handle points to a cell whose first word points to a record that all buffers of its shape and memory share;
an executable's, a layout's and a memory's handle point to their own record.
"""

from __future__ import annotations

from dataclasses import dataclass

from xloom.llvm.struct_layout import StructLayout
from xloom.pjrt.capi.ctypes_structs import struct
from xloom.pjrt.capi.native_structs import BUFFER, EXECUTABLE, LAYOUT, MEMORY, USER_DATA


@dataclass(frozen=True)
class _Getter:
    """Which results come from which fields of whose record."""

    handle: str
    layout: StructLayout
    results: dict[str, str]
    shared: bool = False


def _of_buffer(**results: str) -> _Getter:
    return _Getter("buffer", BUFFER, results, shared=True)


def _of_executable(**results: str) -> _Getter:
    return _Getter("executable", EXECUTABLE, results)


def _of_memory(**results: str) -> _Getter:
    return _Getter("memory", MEMORY, results)


def _of_layout(**results: str) -> _Getter:
    return _Getter("layout", LAYOUT, results)


_GETTERS = {
    "PJRT_Buffer_Device": _of_buffer(device="device"),
    "PJRT_Buffer_Memory": _of_buffer(memory="memory"),
    "PJRT_Buffer_ElementType": _of_buffer(type="type"),
    "PJRT_Buffer_Dimensions": _of_buffer(dims="dims", num_dims="num_dims"),
    "PJRT_Buffer_UnpaddedDimensions": _of_buffer(unpadded_dims="dims", num_dims="num_dims"),
    "PJRT_Buffer_DynamicDimensionIndices": _of_buffer(dynamic_dim_indices="dims", num_dynamic_dims="0"),
    "PJRT_Buffer_OnDeviceSizeInBytes": _of_buffer(on_device_size_in_bytes="nbytes"),
    "PJRT_Buffer_IsOnCpu": _of_buffer(is_on_cpu="is_host"),
    "PJRT_Executable_NumReplicas": _of_executable(num_replicas="num_replicas"),
    "PJRT_Executable_NumPartitions": _of_executable(num_partitions="num_partitions"),
    "PJRT_Executable_NumOutputs": _of_executable(num_outputs="num_outputs"),
    "PJRT_Executable_Name": _of_executable(executable_name="name", executable_name_size="name_size"),
    "PJRT_Memory_Id": _of_memory(id="id"),
    "PJRT_Memory_Kind": _of_memory(kind="kind", kind_size="kind_size"),
    "PJRT_Memory_Kind_Id": _of_memory(kind_id="kind_id"),
    "PJRT_Layouts_PJRT_Buffer_MemoryLayout": _of_buffer(layout="layout"),
    "PJRT_Layouts_MemoryLayout_Serialize": _of_layout(
        serialized_bytes="text",
        serialized_bytes_size="size",
        serialized_layout="text",
        serialized_layout_deleter="deleter",
    ),
    "PJRT_Layouts_MemoryLayout_Destroy": _of_layout(),
}
NAMES = frozenset(_GETTERS)
GET_USER_DATA = "memory_get_user_data"
_TYPES = {1: "i8", 4: "i32", 8: "i64"}


def native_ir(prefix: str) -> str:
    """The functions `<prefix><name>`, as LLVM IR."""
    getters = [_getter(f"{prefix}{name}", name, getter) for name, getter in _GETTERS.items()]
    return "".join([*getters, _user_data(f"{prefix}{GET_USER_DATA}")])


def native_names() -> list[str]:
    """The names, without prefix, of the functions that `native_ir` defines."""
    return [*_GETTERS, GET_USER_DATA]


def _getter(symbol: str, name: str, getter: _Getter) -> str:
    kind = struct(f"{name}_Args")
    lines = [
        f"define ptr @{symbol}(ptr %args) {{",
        f"  %handle_place = getelementptr i8, ptr %args, i64 {getattr(kind, getter.handle).offset}",
        "  %handle = load ptr, ptr %handle_place",
        f"  %record = load ptr, ptr %{'handle' if getter.shared else 'handle_place'}",
    ]
    for field, word in getter.results.items():
        c_field = getattr(kind, field)
        type_ = _TYPES[c_field.size]
        value = word
        if not word.isdigit():
            lines.append(f"  %{field}_word = getelementptr i8, ptr %record, i64 {getter.layout.offset(word)}")
            lines.append(f"  %{field}_value = load {type_}, ptr %{field}_word")
            value = f"%{field}_value"
        lines.append(f"  %{field}_place = getelementptr i8, ptr %args, i64 {c_field.offset}")
        lines.append(f"  store {type_} {value}, ptr %{field}_place")
    return "\n".join([*lines, "  ret ptr null", "}", ""])


def _user_data(symbol: str) -> str:
    """Looks through the keys of a memory."""
    lines = [f"define ptr @{symbol}(ptr %memory, i64 %key) {{", "  br label %look0"]
    for k in range(USER_DATA):
        key, data = (MEMORY.offset(f"{word}{k}") for word in ("key", "data"))
        lines += [
            f"look{k}:",
            f"  %place{k} = getelementptr i8, ptr %memory, i64 {key}",
            f"  %key{k} = load i64, ptr %place{k}",
            f"  %same{k} = icmp eq i64 %key{k}, %key",
            f"  br i1 %same{k}, label %found{k}, label %look{k + 1}",
            f"found{k}:",
            f"  %data_place{k} = getelementptr i8, ptr %memory, i64 {data}",
            f"  %data{k} = load ptr, ptr %data_place{k}",
            f"  ret ptr %data{k}",
        ]
    return "\n".join([*lines, f"look{USER_DATA}:", "  ret ptr null", "}", ""])
