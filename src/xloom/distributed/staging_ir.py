"""LLVM IR of the memory in which what other processes send arrives."""

from __future__ import annotations

from xloom.distributed.records import DEVICE_AT, POINTER_AT, RECORD, STAGING
from xloom.distributed.struct_ir import field, row


def staging_ir() -> str:
    """`staging_memory` and `lay_out`."""
    return f"""
; The staging memory of a group, made larger if need be; null if there is not so much.
define internal ptr @staging_memory(ptr %record) {{
entry:
{field("staging", "record", RECORD, "staging", "ptr")}
{field("wanted", "record", RECORD, "staging_bytes")}
{field("present", "staging", STAGING, "nbytes")}
  %old = load ptr, ptr %staging
  %is.enough = icmp uge i64 %present, %wanted
  br i1 %is.enough, label %keep, label %grow
keep:
  ret ptr %old
grow:
  call void @free(ptr %old)
  %new = call ptr @aligned_alloc(i64 64, i64 %wanted)
  store ptr %new, ptr %staging
  %is.none = icmp eq ptr %new, null
  %size = select i1 %is.none, i64 0, i64 %wanted
  store i64 %size, ptr %present.place
  ret ptr %new
}}

; Write the tables of operands of other processes' devices, which point to where they will arrive.
define internal void @lay_out(ptr %record, ptr %left, ptr %memory) {{
entry:
{field("num.pointers", "record", RECORD, "num_pointers")}
{field("pointers", "record", RECORD, "pointers", "ptr")}
{field("num.devices", "record", RECORD, "num_devices")}
{field("devices", "record", RECORD, "devices", "ptr")}
{field("own", "record", RECORD, "device")}
  %own.pointers = getelementptr ptr, ptr %left, i64 %own
  %mine = load ptr, ptr %own.pointers
  %before = getelementptr i8, ptr %mine, i64 -8
  br label %next.pointer
next.pointer:
  %k = phi i64 [ 0, %entry ], [ %k.next, %write ]
  %are.left = icmp ult i64 %k, %num.pointers
  br i1 %are.left, label %pointer, label %next.device
pointer:
{row("p", "pointers", "k", POINTER_AT)}
{field("at", "p", POINTER_AT, "at")}
{field("target", "p", POINTER_AT, "target")}
{field("base", "p", POINTER_AT, "base")}
  %slot = getelementptr i8, ptr %memory, i64 %at
  %is.staged = icmp eq i64 %base, 0
  br i1 %is.staged, label %write, label %land
land:
  %base.pointer = getelementptr ptr, ptr %before, i64 %base
  %result = load ptr, ptr %base.pointer
  br label %write
write:
  %from = phi ptr [ %memory, %pointer ], [ %result, %land ]
  %aim = getelementptr i8, ptr %from, i64 %target
  store ptr %aim, ptr %slot
  %k.next = add i64 %k, 1
  br label %next.pointer
next.device:
  %d = phi i64 [ 0, %next.pointer ], [ %d.next, %device ]
  %more = icmp ult i64 %d, %num.devices
  br i1 %more, label %device, label %end
device:
{row("row", "devices", "d", DEVICE_AT)}
{field("number", "row", DEVICE_AT, "device")}
{field("table.at", "row", DEVICE_AT, "at")}
  %table = getelementptr i8, ptr %memory, i64 %table.at
  %place = getelementptr ptr, ptr %left, i64 %number
  store ptr %table, ptr %place
  %d.next = add i64 %d, 1
  br label %next.device
end:
  ret void
}}
"""
