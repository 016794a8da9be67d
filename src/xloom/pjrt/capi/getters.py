"""The entries that frameworks call with every dispatch and that only read: native code over cells in C memory.

A buffer's handle points to a cell whose one word points to a record that all buffers of its shape and memory share; an
executable's handle points to its own record, and a memory's handle to itself.
"""

from __future__ import annotations

from dataclasses import dataclass

from xloom.pjrt.capi.memory import struct

READY = 16
"""The handle of an event that is ready, without an error."""

BUFFER = ("device", "memory", "type", "dims", "num_dims", "nbytes", "is_host")
"""The words of a buffer's record."""
EXECUTABLE = ("num_replicas", "num_partitions", "num_outputs", "name", "name_size")
"""The words of an executable's record."""
USER_DATA = 4
"""How many keys with data a memory has room for."""
MEMORY = (
    "vtable",
    "id",
    "kind_id",
    "kind",
    "kind_size",
    *(f"{w}{k}" for k in range(USER_DATA) for w in ("key", "data")),
)
"""The words of a memory's record."""


@dataclass(frozen=True)
class _Getter:
    """Which results come from which words of whose record."""

    handle: str
    words: tuple[str, ...]
    results: dict[str, str]
    shared: bool = False


def _of_buffer(**results: str) -> _Getter:
    return _Getter("buffer", BUFFER, results, shared=True)


def _of_executable(**results: str) -> _Getter:
    return _Getter("executable", EXECUTABLE, results)


def _of_memory(**results: str) -> _Getter:
    return _Getter("memory", MEMORY, results)


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
}
_EVENTS = {
    "PJRT_Event_Destroy": "",
    "PJRT_Event_IsReady": "  %place = getelementptr i8, ptr %args, i64 24\n  store i8 1, ptr %place\n",
    "PJRT_Event_Error": "",
    "PJRT_Event_Await": "",
    "PJRT_Event_OnReady": """  %function_place = getelementptr i8, ptr %args, i64 24
  %function = load ptr, ptr %function_place
  %user_place = getelementptr i8, ptr %args, i64 32
  %user = load ptr, ptr %user_place
  call void %function(ptr null, ptr %user)
""",
}
"""What is done where the event is READY; the rest is done in Python."""

NAMES = frozenset(_GETTERS)
EVENT_NAMES = frozenset(_EVENTS)
PENDING = "_pending"
"""What the name of an event's function in Python ends with."""
GET_USER_DATA = "memory_get_user_data"
_TYPES = {1: "i8", 4: "i32", 8: "i64"}


def native_ir(prefix: str) -> str:
    """The functions `<prefix><name>`, as LLVM IR; those of pending events are in the same module."""
    getters = [_getter(f"{prefix}{name}", name, getter) for name, getter in _GETTERS.items()]
    events = [_event(f"{prefix}{name}", code) for name, code in _EVENTS.items()]
    return "".join([*getters, *events, _user_data(f"{prefix}{GET_USER_DATA}")])


def native_names() -> list[str]:
    """What `native_ir` defines."""
    return [*_GETTERS, *_EVENTS, GET_USER_DATA]


def _getter(symbol: str, name: str, getter: _Getter) -> str:
    kind = struct(f"{name}_Args")
    lines = [
        f"define ptr @{symbol}(ptr %args) {{",
        f"  %handle_place = getelementptr i8, ptr %args, i64 {getattr(kind, getter.handle).offset}",
        "  %handle = load ptr, ptr %handle_place",
        f"  %record = load ptr, ptr %{'handle' if getter.shared else 'handle_place'}",
    ]
    for field, word in getter.results.items():
        place = getattr(kind, field)
        type_ = _TYPES[place.size]
        value = word
        if not word.isdigit():
            lines.append(f"  %{field}_word = getelementptr i8, ptr %record, i64 {8 * getter.words.index(word)}")
            lines.append(f"  %{field}_value = load {type_}, ptr %{field}_word")
            value = f"%{field}_value"
        lines.append(f"  %{field}_place = getelementptr i8, ptr %args, i64 {place.offset}")
        lines.append(f"  store {type_} {value}, ptr %{field}_place")
    return "\n".join([*lines, "  ret ptr null", "}", ""])


def _event(symbol: str, code: str) -> str:
    return f"""define ptr @{symbol}(ptr %args) {{
  %event_place = getelementptr i8, ptr %args, i64 16
  %event = load i64, ptr %event_place
  %is_ready = icmp eq i64 %event, {READY}
  br i1 %is_ready, label %ready, label %pending
ready:
{code}  ret ptr null
pending:
  %error = call ptr @{symbol}{PENDING}(ptr %args, ptr null, ptr null, ptr null)
  ret ptr %error
}}
"""


def _user_data(symbol: str) -> str:
    """Looks through the keys of a memory."""
    lines = [f"define ptr @{symbol}(ptr %memory, i64 %key) {{", "  br label %look0"]
    for k in range(USER_DATA):
        key, data = (8 * MEMORY.index(f"{word}{k}") for word in ("key", "data"))
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
