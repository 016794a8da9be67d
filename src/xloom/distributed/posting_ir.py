"""LLVM IR that begins to send and to receive what lies in pieces, in messages that MPI takes."""

from __future__ import annotations

from xloom.distributed.mpi_ir import COMM, MPI_BYTE
from xloom.distributed.records import LONGEST, SEGMENT
from xloom.distributed.struct_ir import field, row


def posting_ir() -> str:
    """`post`, `post_segments`, and `copy_segments`, for pieces that are to travel as one."""
    return f"""
; Where the blocks of a segment begin.
define internal ptr @first_block(ptr %left, ptr %segment) {{
{field("device", "segment", SEGMENT, "device")}
{field("operand", "segment", SEGMENT, "operand")}
{field("offset", "segment", SEGMENT, "offset")}
  %device.table = getelementptr ptr, ptr %left, i64 %device
  %table = load ptr, ptr %device.table
  %operand.place2 = getelementptr ptr, ptr %table, i64 %operand
  %array = load ptr, ptr %operand.place2
  %first = getelementptr i8, ptr %array, i64 %offset
  ret ptr %first
}}

; Copy segments to where they lie one after another, or back.
define internal void @copy_segments(ptr %left, ptr %segments, i64 %n, ptr %packed, i1 %packs) {{
entry:
  br label %next
next:
  %k = phi i64 [ 0, %entry ], [ %k.next, %done ]
  %at = phi ptr [ %packed, %entry ], [ %p, %done ]
  %more = icmp ult i64 %k, %n
  br i1 %more, label %segment, label %end
segment:
{row("s", "segments", "k", SEGMENT)}
  %base = call ptr @first_block(ptr %left, ptr %s)
{field("nbytes", "s", SEGMENT, "nbytes")}
{field("count", "s", SEGMENT, "count")}
{field("stride", "s", SEGMENT, "stride")}
  br label %block
block:
  %j = phi i64 [ 0, %segment ], [ %j.next, %copy ]
  %p = phi ptr [ %at, %segment ], [ %p.next, %copy ]
  %q = phi ptr [ %base, %segment ], [ %q.next, %copy ]
  %are.left = icmp ult i64 %j, %count
  br i1 %are.left, label %copy, label %done
copy:
  %to = select i1 %packs, ptr %p, ptr %q
  %from = select i1 %packs, ptr %q, ptr %p
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %nbytes, i1 false)
  %p.next = getelementptr i8, ptr %p, i64 %nbytes
  %q.next = getelementptr i8, ptr %q, i64 %stride
  %j.next = add i64 %j, 1
  br label %block
done:
  %k.next = add i64 %k, 1
  br label %next
end:
  ret void
}}

; Begin to send or to receive bytes, in messages that are not too long. An owner is a peer's number, twice, and 1 of
; what is sent. The number of requests, or -1 after an error of MPI.
define internal i64 @post(ptr %run, i1 %sends, ptr %bytes, i64 %nbytes, i64 %rank, i64 %tag, ptr %requests, ptr %owners,
                          i64 %peer, i64 %begun) {{
entry:
  %rank.32 = trunc i64 %rank to i32
  %tag.32 = trunc i64 %tag to i32
  %twice = shl i64 %peer, 1
  %one.if.sent = zext i1 %sends to i64
  %owner = or i64 %twice, %one.if.sent
  br label %next
next:
  %n = phi i64 [ %begun, %entry ], [ %n.next, %posted ]
  %at = phi ptr [ %bytes, %entry ], [ %at.next, %posted ]
  %left = phi i64 [ %nbytes, %entry ], [ %left.next, %posted ]
  %any = icmp ne i64 %left, 0
  br i1 %any, label %message, label %end
message:
  %is.long = icmp ugt i64 %left, {LONGEST}
  %size = select i1 %is.long, i64 {LONGEST}, i64 %left
  %size.32 = trunc i64 %size to i32
  %request = getelementptr ptr, ptr %requests, i64 %n
  %owner.place = getelementptr i64, ptr %owners, i64 %n
  store i64 %owner, ptr %owner.place
  br i1 %sends, label %send, label %receive
send:
  %sent = call i32 @MPI_Isend(ptr %at, i32 %size.32, ptr {MPI_BYTE}, i32 %rank.32, i32 %tag.32, ptr {COMM},
                          ptr %request)
  br label %called
receive:
  %came = call i32 @MPI_Irecv(ptr %at, i32 %size.32, ptr {MPI_BYTE}, i32 %rank.32, i32 %tag.32, ptr {COMM},
                          ptr %request)
  br label %called
called:
  %number = phi i32 [ %sent, %send ], [ %came, %receive ]
  %failed = icmp ne i32 %number, 0
  br i1 %failed, label %error, label %posted
posted:
  %n.next = add i64 %n, 1
  %at.next = getelementptr i8, ptr %at, i64 %size
  %left.next = sub i64 %left, %size
  br label %next
error:
  call void @note_number(ptr %run, i32 %number)
  ret i64 -1
end:
  ret i64 %n
}}

; The same for each of some segments.
define internal i64 @post_segments(ptr %run, i1 %sends, ptr %left, ptr %segments, i64 %count, i64 %rank, i64 %tag,
                                   ptr %requests, ptr %owners, i64 %peer, i64 %begun) {{
entry:
  br label %next
next:
  %k = phi i64 [ 0, %entry ], [ %k.next, %segment ]
  %n = phi i64 [ %begun, %entry ], [ %n.next, %segment ]
  %are.left = icmp ult i64 %k, %count
  %is.well = icmp sge i64 %n, 0
  %goes.on = and i1 %are.left, %is.well
  br i1 %goes.on, label %segment, label %end
segment:
{row("s", "segments", "k", SEGMENT)}
  %bytes = call ptr @first_block(ptr %left, ptr %s)
{field("nbytes", "s", SEGMENT, "nbytes")}
  %n.next = call i64 @post(ptr %run, i1 %sends, ptr %bytes, i64 %nbytes, i64 %rank, i64 %tag, ptr %requests,
                           ptr %owners, i64 %peer, i64 %n)
  %k.next = add i64 %k, 1
  br label %next
end:
  ret i64 %n
}}
"""
