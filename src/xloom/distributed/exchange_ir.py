"""LLVM IR of an exchange: what a group's last member to arrive does so that the operands of other processes are here.

To each peer goes a header, which says what the message is for; small operands come right behind it, others are sent
once the header of the peer has come, and fits. So processes that run different programs notice before data moves. All
calls return at once; who waits looks a few times, then gives the processor away, then sleeps between looks.
"""

from __future__ import annotations

from xloom.cpu.runtime.threads.host_ir import host_ir
from xloom.distributed.communicator import BYTE, REQUEST_NULL
from xloom.distributed.records import (
    DEVICE_AT,
    FIRST_BYTES,
    HEADER,
    HEADER_BYTES,
    INLINE,
    LONGEST,
    MISMATCH,
    MPI_FAILED,
    NO_MEMORY,
    PEER,
    PEER_FAILED,
    POINTER_AT,
    RECORD,
    RUN,
    SEGMENT,
    STAGING,
    STOPPED,
    TIMED_OUT,
)
from xloom.distributed.tags import Tags
from xloom.distributed.turns_ir import turns_ir
from xloom.distributed.waits import WHOLE, waits_ir
from xloom.llvm.struct_layout import StructLayout

LOOKS = 256
"""How often who waits looks without a pause: some 50 microseconds."""
YIELDING = 2_000_000
"""Nanoseconds after which who waits sleeps between looks; until then it only gives the processor away."""
LONG = 100_000_000
"""Nanoseconds after which the sleeps are long."""
SHORT_SLEEP, LONG_SLEEP = 50_000, 1_000_000
"""Nanoseconds."""
FAREWELL = 50_000_000
"""Nanoseconds in which the message that a run has failed should be sent."""
FACTOR = 16
"""Errors are smaller: above is the number of the peer that one is about, where that is not who is waited for."""


def _field(name: str, pointer: str, layout: StructLayout, field: str, kind: str = "i64") -> str:
    """Loads a field."""
    return f"""  %{name}.place = getelementptr i8, ptr %{pointer}, i64 {layout.offset(field)}
  %{name} = load {kind}, ptr %{name}.place"""


def _row(name: str, table: str, index: str, layout: StructLayout) -> str:
    """The address of a row of a table of structures."""
    return f"  %{name} = getelementptr [{layout.size} x i8], ptr %{table}, i64 %{index}"


COMMUNICATOR = "xloom_mpi_communicator"
"""The symbol whose address is MPI's handle of the communicator."""


def exchange_ir(tags: Tags) -> str:
    """`xloom_exchange` and `xloom_announce`, among the processes of an MPI communicator; and `turns_ir`."""
    byte, comm = f"inttoptr (i64 {BYTE} to ptr)", f"@{COMMUNICATOR}"
    return f"""
{host_ir()}
{turns_ir()}
{waits_ir()}
@{COMMUNICATOR} = external global i8
declare i32 @MPI_Isend(ptr, i32, ptr, i32, i32, ptr, ptr)
declare i32 @MPI_Irecv(ptr, i32, ptr, i32, i32, ptr, ptr)
declare i32 @MPI_Test(ptr, ptr, ptr)
declare i32 @MPI_Cancel(ptr)
declare i32 @MPI_Improbe(i32, i32, ptr, ptr, ptr, ptr)
declare i32 @MPI_Mrecv(ptr, i32, ptr, ptr, ptr)
declare i32 @MPI_Request_free(ptr)
declare i32 @sched_yield()
declare i32 @nanosleep(ptr, ptr)
declare ptr @aligned_alloc(i64, i64)
declare void @free(ptr)

; Where the blocks of a segment begin.
define internal ptr @first_block(ptr %left, ptr %segment) {{
{_field("device", "segment", SEGMENT, "device")}
{_field("operand", "segment", SEGMENT, "operand")}
{_field("offset", "segment", SEGMENT, "offset")}
  %device.table = getelementptr ptr, ptr %left, i64 %device
  %table = load ptr, ptr %device.table
  %operand.place2 = getelementptr ptr, ptr %table, i64 %operand
  %array = load ptr, ptr %operand.place2
  %first = getelementptr i8, ptr %array, i64 %offset
  ret ptr %first
}}

; Which of the runs that this process has in common with a peer it is.
define internal i64 @number_of(ptr %run, ptr %peer) {{
{_field("numbers", "run", RUN, "numbers", "ptr")}
{_field("process", "peer", PEER, "process")}
  %place = getelementptr i64, ptr %numbers, i64 %process
  %number = load i64, ptr %place
  ret i64 %number
}}

; The tag of what belongs to one run.
define internal i64 @stamped(i64 %tag, i64 %number) {{
  %low = and i64 %number, {tags.run_mask}
  %high = shl i64 %low, {tags.run_shift}
  %all = or i64 %tag, %high
  ret i64 %all
}}

; Has the run failed in one of a record's other processes? The number of that peer, or -1.
define internal i64 @failed_peer(ptr %run, ptr %record) {{
entry:
  %flag = alloca i32
  %message = alloca ptr
  %header = alloca [{HEADER_BYTES} x i8]
{_field("num.peers", "record", RECORD, "num_peers")}
{_field("peers", "record", RECORD, "peers", "ptr")}
  br label %next
next:
  %k = phi i64 [ 0, %entry ], [ %k.next, %no ]
  %are.left = icmp ult i64 %k, %num.peers
  br i1 %are.left, label %peer, label %none
peer:
{_row("p", "peers", "k", PEER)}
{_field("rank", "p", PEER, "rank")}
  %number = call i64 @number_of(ptr %run, ptr %p)
  %tag = call i64 @stamped(i64 {tags.failure}, i64 %number)
  %rank.32 = trunc i64 %rank to i32
  %tag.32 = trunc i64 %tag to i32
  store i32 0, ptr %flag
  %probed = call i32 @MPI_Improbe(i32 %rank.32, i32 %tag.32, ptr {comm}, ptr %flag, ptr %message, ptr null)
  %is.there = load i32, ptr %flag
  %comes = icmp ne i32 %is.there, 0
  br i1 %comes, label %take, label %no
take:
  call i32 @MPI_Mrecv(ptr %header, i32 {HEADER_BYTES}, ptr {byte}, ptr %message, ptr null)
{_field("their.run", "header", HEADER, "run")}
  %is.this = icmp eq i64 %their.run, %number
  br i1 %is.this, label %yes, label %no
no:
  %k.next = add i64 %k, 1
  br label %next
yes:
  call void @keep(ptr %run, ptr %header)
  ret i64 %k
none:
  ret i64 -1
}}

; Keep another process's header for the message about what went wrong.
define internal void @keep(ptr %run, ptr %header) {{
{_field("kept", "run", RUN, "their_header", "ptr")}
  call void @llvm.memcpy.p0.p0.i64(ptr %kept, ptr %header, i64 {HEADER_BYTES}, i1 false)
  ret void
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
{_row("s", "segments", "k", SEGMENT)}
  %base = call ptr @first_block(ptr %left, ptr %s)
{_field("nbytes", "s", SEGMENT, "nbytes")}
{_field("count", "s", SEGMENT, "count")}
{_field("stride", "s", SEGMENT, "stride")}
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
  %sent = call i32 @MPI_Isend(ptr %at, i32 %size.32, ptr {byte}, i32 %rank.32, i32 %tag.32, ptr {comm}, ptr %request)
  br label %called
receive:
  %came = call i32 @MPI_Irecv(ptr %at, i32 %size.32, ptr {byte}, i32 %rank.32, i32 %tag.32, ptr {comm}, ptr %request)
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
{_row("s", "segments", "k", SEGMENT)}
  %bytes = call ptr @first_block(ptr %left, ptr %s)
{_field("nbytes", "s", SEGMENT, "nbytes")}
  %n.next = call i64 @post(ptr %run, i1 %sends, ptr %bytes, i64 %nbytes, i64 %rank, i64 %tag, ptr %requests,
                           ptr %owners, i64 %peer, i64 %n)
  %k.next = add i64 %k, 1
  br label %next
end:
  ret i64 %n
}}

define internal void @note_number(ptr %run, i32 %number) {{
  %wide = zext i32 %number to i64
  %place = getelementptr i8, ptr %run, i64 {RUN.offset("error_number")}
  store i64 %wide, ptr %place
  ret void
}}

; Wait for a request: 0, or an error; that a peer has failed is PEER_FAILED and {FACTOR} times
; its number from 1 on.
define internal i64 @wait_for(ptr %run, ptr %record, ptr %request, i64 %start) {{
entry:
  %flag = alloca i32
  %sleep = alloca [2 x i64]
  store i64 0, ptr %sleep
  %sleep.nanoseconds = getelementptr i64, ptr %sleep, i64 1
  br label %test
test:
  %turn = phi i64 [ 0, %entry ], [ %turn.next, %again ]
  store i32 0, ptr %flag
  %number = call i32 @MPI_Test(ptr %request, ptr %flag, ptr null)
  %failed = icmp ne i32 %number, 0
  br i1 %failed, label %error, label %look
look:
  %set = load i32, ptr %flag
  %is.done = icmp ne i32 %set, 0
  br i1 %is.done, label %done, label %pace
pace:
  %turn.next = add i64 %turn, 1
  %is.early = icmp ult i64 %turn.next, {LOOKS}
  br i1 %is.early, label %spin, label %check
spin:
  call void @pause()
  br label %again
check:
  %stop.place = getelementptr i8, ptr %run, i64 {RUN.offset("is_stopped")}
  %stop = load atomic i64, ptr %stop.place monotonic, align 8
  %is.stopped = icmp ne i64 %stop, 0
  br i1 %is.stopped, label %stopped, label %clock
clock:
  %now = call i64 @now()
  %waited = sub i64 %now, %start
{_field("timeout", "run", RUN, "timeout")}
  %is.late = icmp ugt i64 %waited, %timeout
  br i1 %is.late, label %late, label %ask
ask:
  %broken = call i64 @failed_peer(ptr %run, ptr %record)
  %are.well = icmp slt i64 %broken, 0
  br i1 %are.well, label %rest, label %peer.failed
rest:
  %is.short = icmp ult i64 %waited, {YIELDING}
  br i1 %is.short, label %yield, label %nap
yield:
  call i32 @sched_yield()
  br label %again
nap:
  %is.long = icmp ugt i64 %waited, {LONG}
  %length = select i1 %is.long, i64 {LONG_SLEEP}, i64 {SHORT_SLEEP}
  store i64 %length, ptr %sleep.nanoseconds
  call i32 @nanosleep(ptr %sleep, ptr null)
  br label %again
again:
  br label %test
done:
  ret i64 0
error:
  call void @note_number(ptr %run, i32 %number)
  ret i64 {MPI_FAILED}
stopped:
  ret i64 {STOPPED}
peer.failed:
  %whose.place = add i64 %broken, 1
  %whose = mul i64 %whose.place, {FACTOR}
  %which = add i64 %whose, {PEER_FAILED}
  ret i64 %which
late:
  ret i64 {TIMED_OUT}
}}

; Say what went wrong, unless another group has; give up what is under way, with the memory that it may still touch.
define internal void @give_up(ptr %run, ptr %record, i64 %error, i64 %peer, i64 %start, ptr %requests, ptr %owners,
                              i64 %count) {{
entry:
  %error.place = getelementptr i8, ptr %run, i64 {RUN.offset("error")}
  %swapped = cmpxchg ptr %error.place, i64 0, i64 %error acq_rel monotonic
  %is.first = extractvalue {{ i64, i1 }} %swapped, 1
  br i1 %is.first, label %say, label %free.all
say:
  %record.place = getelementptr i8, ptr %run, i64 {RUN.offset("error_record")}
  store ptr %record, ptr %record.place
  %peer.place = getelementptr i8, ptr %run, i64 {RUN.offset("error_peer")}
  store i64 %peer, ptr %peer.place
  %now = call i64 @now()
  %waited = sub i64 %now, %start
  %waited.place = getelementptr i8, ptr %run, i64 {RUN.offset("waited")}
  store i64 %waited, ptr %waited.place
  br label %free.all
free.all:
  br label %next
next:
  %k = phi i64 [ 0, %free.all ], [ %k.next, %passed ]
  %are.left = icmp slt i64 %k, %count
  br i1 %are.left, label %one, label %end
one:
  %request = getelementptr ptr, ptr %requests, i64 %k
  %handle = load i64, ptr %request
  %is.over = icmp eq i64 %handle, {REQUEST_NULL}
  br i1 %is.over, label %passed, label %open
open:
  %owner.place = getelementptr i64, ptr %owners, i64 %k
  %owner = load i64, ptr %owner.place
  %is.sent = trunc i64 %owner to i1
  br i1 %is.sent, label %free, label %cancel
cancel:
  call i32 @MPI_Cancel(ptr %request)
  br label %free
free:
  call i32 @MPI_Request_free(ptr %request)
  br label %passed
passed:
  %k.next = add i64 %k, 1
  br label %next
end:
{_field("staging", "record", RECORD, "staging", "ptr")}
  store ptr null, ptr %staging
  %size.place = getelementptr i8, ptr %staging, i64 {STAGING.offset("nbytes")}
  store i64 0, ptr %size.place
  ret void
}}

; The staging memory of a group, made larger if need be; null if there is not so much.
define internal ptr @staging_memory(ptr %record) {{
entry:
{_field("staging", "record", RECORD, "staging", "ptr")}
{_field("wanted", "record", RECORD, "staging_bytes")}
{_field("present", "staging", STAGING, "nbytes")}
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
{_field("num.pointers", "record", RECORD, "num_pointers")}
{_field("pointers", "record", RECORD, "pointers", "ptr")}
{_field("num.devices", "record", RECORD, "num_devices")}
{_field("devices", "record", RECORD, "devices", "ptr")}
  br label %next.pointer
next.pointer:
  %k = phi i64 [ 0, %entry ], [ %k.next, %pointer ]
  %are.left = icmp ult i64 %k, %num.pointers
  br i1 %are.left, label %pointer, label %next.device
pointer:
{_row("p", "pointers", "k", POINTER_AT)}
{_field("at", "p", POINTER_AT, "at")}
{_field("target", "p", POINTER_AT, "target")}
  %slot = getelementptr i8, ptr %memory, i64 %at
  %aim = getelementptr i8, ptr %memory, i64 %target
  store ptr %aim, ptr %slot
  %k.next = add i64 %k, 1
  br label %next.pointer
next.device:
  %d = phi i64 [ 0, %next.pointer ], [ %d.next, %device ]
  %more = icmp ult i64 %d, %num.devices
  br i1 %more, label %device, label %end
device:
{_row("row", "devices", "d", DEVICE_AT)}
{_field("number", "row", DEVICE_AT, "device")}
{_field("table.at", "row", DEVICE_AT, "at")}
  %table = getelementptr i8, ptr %memory, i64 %table.at
  %place = getelementptr ptr, ptr %left, i64 %number
  store ptr %table, ptr %place
  %d.next = add i64 %d, 1
  br label %next.device
end:
  ret void
}}

; Does a header that came belong to this collective? 0, MISMATCH, or -1 for what an earlier run has left.
define internal i64 @judge(ptr %run, ptr %record, ptr %peer, ptr %message) {{
entry:
{_field("header", "record", RECORD, "header", "ptr")}
  %my.run = call i64 @number_of(ptr %run, ptr %peer)
{_field("their.run", "message", HEADER, "run")}
{_field("mine", "header", HEADER, "collective")}
{_field("theirs", "message", HEADER, "collective")}
{_field("my.program", "header", HEADER, "program")}
{_field("their.program", "message", HEADER, "program")}
  %same.run = icmp eq i64 %my.run, %their.run
  %same.collective = icmp eq i64 %mine, %theirs
  %same.program = icmp eq i64 %my.program, %their.program
  %fits.1 = and i1 %same.run, %same.collective
  %fits = and i1 %fits.1, %same.program
  br i1 %fits, label %good, label %bad
good:
  ret i64 0
bad:
  call void @keep(ptr %run, ptr %message)
  %is.old = icmp ult i64 %their.run, %my.run
  %verdict = select i1 %is.old, i64 -1, i64 {MISMATCH}
  ret i64 %verdict
}}

; Bring here what the members of a group that are here will read of others, and send others what they will. 0, or 1 if
; that cannot be: the run says why.
define i32 @xloom_exchange(ptr %run, ptr %record, ptr %left) {{
entry:
  %start = call i64 @now()
{_field("num.peers", "record", RECORD, "num_peers")}
{_field("peers", "record", RECORD, "peers", "ptr")}
{_field("header", "record", RECORD, "header", "ptr")}
{_field("requests.at", "record", RECORD, "requests")}
{_field("owners.at", "record", RECORD, "owners")}
  %is.local = icmp eq i64 %num.peers, 0
  br i1 %is.local, label %all, label %prepare
prepare:
  %memory = call ptr @staging_memory(ptr %record)
  %is.none = icmp eq ptr %memory, null
  %requests = getelementptr i8, ptr %memory, i64 %requests.at
  %owners = getelementptr i8, ptr %memory, i64 %owners.at
  br i1 %is.none, label %failed, label %begin
begin:
  call void @lay_out(ptr %record, ptr %left, ptr %memory)
  br label %next.first

next.first:
  %k = phi i64 [ 0, %begin ], [ %k.next, %first.sent ]
  %n = phi i64 [ 0, %begin ], [ %n.sent, %first.sent ]
  %firsts.left = icmp ult i64 %k, %num.peers
  br i1 %firsts.left, label %first, label %next.answer
first:
{_row("p", "peers", "k", PEER)}
{_field("p.rank", "p", PEER, "rank")}
{_field("p.tag", "p", PEER, "tag")}
{_field("p.in", "p", PEER, "message_in")}
{_field("p.out", "p", PEER, "message_out")}
{_field("p.sent", "p", PEER, "sent", "ptr")}
{_field("p.num.sent", "p", PEER, "num_sent")}
{_field("p.sent.bytes", "p", PEER, "sent_bytes")}
  %in = getelementptr i8, ptr %memory, i64 %p.in
  %out = getelementptr i8, ptr %memory, i64 %p.out
  %n.received = call i64 @post(ptr %run, i1 false, ptr %in, i64 {FIRST_BYTES}, i64 %p.rank, i64 %p.tag, ptr %requests,
                               ptr %owners, i64 %k, i64 %n)
  %receives = icmp sge i64 %n.received, 0
  br i1 %receives, label %write, label %failed
write:
  call void @llvm.memcpy.p0.p0.i64(ptr %out, ptr %header, i64 {HEADER_BYTES}, i1 false)
  %out.run = getelementptr i8, ptr %out, i64 {HEADER.offset("run")}
  %p.number = call i64 @number_of(ptr %run, ptr %p)
  store i64 %p.number, ptr %out.run
  %is.inline = icmp ule i64 %p.sent.bytes, {INLINE}
  br i1 %is.inline, label %pack, label %send
pack:
  %payload = getelementptr i8, ptr %out, i64 {HEADER_BYTES}
  call void @copy_segments(ptr %left, ptr %p.sent, i64 %p.num.sent, ptr %payload, i1 true)
  %with.payload = add i64 %p.sent.bytes, {HEADER_BYTES}
  br label %send
send:
  %size = phi i64 [ {HEADER_BYTES}, %write ], [ %with.payload, %pack ]
  %n.sent = call i64 @post(ptr %run, i1 true, ptr %out, i64 %size, i64 %p.rank, i64 %p.tag, ptr %requests, ptr %owners,
                           i64 %k, i64 %n.received)
  %sends = icmp sge i64 %n.sent, 0
  br i1 %sends, label %first.sent, label %failed.at.send
failed.at.send:
  br label %failed
first.sent:
  %k.next = add i64 %k, 1
  br label %next.first

next.answer:
  %a = phi i64 [ 0, %next.first ], [ %a.next, %answered ]
  %a.start = call i64 @now()
  %answers.left = icmp ult i64 %a, %num.peers
  br i1 %answers.left, label %answer, label %next.data
answer:
{_row("q", "peers", "a", PEER)}
{_field("q.rank", "q", PEER, "rank")}
{_field("q.tag", "q", PEER, "tag")}
{_field("q.in", "q", PEER, "message_in")}
{_field("q.received", "q", PEER, "received", "ptr")}
{_field("q.num.received", "q", PEER, "num_received")}
{_field("q.received.bytes", "q", PEER, "received_bytes")}
  %message = getelementptr i8, ptr %memory, i64 %q.in
  %a.twice = shl i64 %a, 1
  %a.request = getelementptr ptr, ptr %requests, i64 %a.twice
  br label %wait
wait:
  %waiting = call i64 @wait_for(ptr %run, ptr %record, ptr %a.request, i64 %start)
  %is.waited = icmp eq i64 %waiting, 0
  br i1 %is.waited, label %judge, label %failed
judge:
  %verdict = call i64 @judge(ptr %run, ptr %record, ptr %q, ptr %message)
  switch i64 %verdict, label %failed [ i64 0, label %fits i64 -1, label %repeat ]
repeat:
  %posted = call i64 @post(ptr %run, i1 false, ptr %message, i64 {FIRST_BYTES}, i64 %q.rank, i64 %q.tag, ptr %requests,
                           ptr %owners, i64 %a, i64 %a.twice)
  %is.posted = icmp sge i64 %posted, 0
  br i1 %is.posted, label %wait, label %failed
fits:
  %came.inline = icmp ule i64 %q.received.bytes, {INLINE}
  br i1 %came.inline, label %unpack, label %await.sent
unpack:
  %q.payload = getelementptr i8, ptr %message, i64 {HEADER_BYTES}
  call void @copy_segments(ptr %left, ptr %q.received, i64 %q.num.received, ptr %q.payload, i1 false)
  br label %await.sent
await.sent:
  %sent.request = getelementptr ptr, ptr %a.request, i64 1
  %sending = call i64 @wait_for(ptr %run, ptr %record, ptr %sent.request, i64 %start)
  %is.sent = icmp eq i64 %sending, 0
  br i1 %is.sent, label %answered, label %failed
answered:
  %q.number = call i64 @number_of(ptr %run, ptr %q)
  call void @note_wait(ptr %record, i64 %a, i64 %q.number, i64 %start, i64 %a.start)
  %a.next = add i64 %a, 1
  br label %next.answer

next.data:
  %d = phi i64 [ 0, %next.answer ], [ %d.next, %data.sent ]
  %m = phi i64 [ %n, %next.answer ], [ %m.sent, %data.sent ]
  %data.left = icmp ult i64 %d, %num.peers
  br i1 %data.left, label %data, label %next.end
data:
{_row("r", "peers", "d", PEER)}
{_field("r.rank", "r", PEER, "rank")}
{_field("r.data.tag", "r", PEER, "data_tag")}
  %r.number = call i64 @number_of(ptr %run, ptr %r)
  %r.tag = call i64 @stamped(i64 %r.data.tag, i64 %r.number)
{_field("r.num.sent", "r", PEER, "num_sent")}
{_field("r.sent", "r", PEER, "sent", "ptr")}
{_field("r.sent.bytes", "r", PEER, "sent_bytes")}
{_field("r.sends.packed", "r", PEER, "sends_packed")}
{_field("r.packed.out", "r", PEER, "packed_out")}
{_field("r.num.received", "r", PEER, "num_received")}
{_field("r.received", "r", PEER, "received", "ptr")}
{_field("r.received.bytes", "r", PEER, "received_bytes")}
{_field("r.receives.packed", "r", PEER, "receives_packed")}
{_field("r.packed.in", "r", PEER, "packed_in")}
  %data.comes = icmp ugt i64 %r.received.bytes, {INLINE}
  br i1 %data.comes, label %receive.data, label %data.received
receive.data:
  %comes.packed = icmp ne i64 %r.receives.packed, 0
  br i1 %comes.packed, label %receive.packed, label %receive.segments
receive.packed:
  %packed.in = getelementptr i8, ptr %memory, i64 %r.packed.in
  %m.1 = call i64 @post(ptr %run, i1 false, ptr %packed.in, i64 %r.received.bytes, i64 %r.rank, i64 %r.tag,
                        ptr %requests, ptr %owners, i64 %d, i64 %m)
  br label %data.received
receive.segments:
  %m.2 = call i64 @post_segments(ptr %run, i1 false, ptr %left, ptr %r.received, i64 %r.num.received, i64 %r.rank,
                                 i64 %r.tag, ptr %requests, ptr %owners, i64 %d, i64 %m)
  br label %data.received
data.received:
  %m.received = phi i64 [ %m, %data ], [ %m.1, %receive.packed ], [ %m.2, %receive.segments ]
  %data.receives = icmp sge i64 %m.received, 0
  %data.goes = icmp ugt i64 %r.sent.bytes, {INLINE}
  br i1 %data.receives, label %may.send, label %failed
may.send:
  br i1 %data.goes, label %send.data, label %data.posted
send.data:
  %goes.packed = icmp ne i64 %r.sends.packed, 0
  br i1 %goes.packed, label %send.packed, label %send.segments
send.packed:
  %packed.out = getelementptr i8, ptr %memory, i64 %r.packed.out
  call void @copy_segments(ptr %left, ptr %r.sent, i64 %r.num.sent, ptr %packed.out, i1 true)
  %m.3 = call i64 @post(ptr %run, i1 true, ptr %packed.out, i64 %r.sent.bytes, i64 %r.rank, i64 %r.tag, ptr %requests,
                        ptr %owners, i64 %d, i64 %m.received)
  br label %data.posted
send.segments:
  %m.4 = call i64 @post_segments(ptr %run, i1 true, ptr %left, ptr %r.sent, i64 %r.num.sent, i64 %r.rank, i64 %r.tag,
                                 ptr %requests, ptr %owners, i64 %d, i64 %m.received)
  br label %data.posted
data.posted:
  %m.sent = phi i64 [ %m.received, %may.send ], [ %m.3, %send.packed ], [ %m.4, %send.segments ]
  %data.is.sent = icmp sge i64 %m.sent, 0
  br i1 %data.is.sent, label %data.sent, label %failed
data.sent:
  %d.next = add i64 %d, 1
  br label %next.data

next.end:
  %e = phi i64 [ %n, %next.data ], [ %e.next, %ended ]
  %ends.left = icmp ult i64 %e, %m
  br i1 %ends.left, label %end.one, label %end.all
end.one:
  %e.request = getelementptr ptr, ptr %requests, i64 %e
  %ending = call i64 @wait_for(ptr %run, ptr %record, ptr %e.request, i64 %start)
  %e.owner.place = getelementptr i64, ptr %owners, i64 %e
  %e.owner = load i64, ptr %e.owner.place
  %e.peer = lshr i64 %e.owner, 1
  %is.ended = icmp eq i64 %ending, 0
  br i1 %is.ended, label %ended, label %failed
ended:
  %e.next = add i64 %e, 1
  br label %next.end
end.all: ; who has failed may have given the memory back that this was read from
  %had.data = icmp ugt i64 %m, %n
  br i1 %had.data, label %ask, label %all
ask:
  %broken = call i64 @failed_peer(ptr %run, ptr %record)
  %are.well = icmp slt i64 %broken, 0
  br i1 %are.well, label %next.unpacked, label %failed

next.unpacked:
  %u = phi i64 [ 0, %ask ], [ %u.next, %is.unpacked ]
  %unpacked.left = icmp ult i64 %u, %num.peers
  br i1 %unpacked.left, label %unpack.one, label %all
unpack.one:
{_row("s", "peers", "u", PEER)}
{_field("s.num.received", "s", PEER, "num_received")}
{_field("s.received", "s", PEER, "received", "ptr")}
{_field("s.received.bytes", "s", PEER, "received_bytes")}
{_field("s.receives.packed", "s", PEER, "receives_packed")}
{_field("s.packed.in", "s", PEER, "packed_in")}
  %s.is.large = icmp ugt i64 %s.received.bytes, {INLINE}
  %s.is.packed = icmp ne i64 %s.receives.packed, 0
  %s.unpacks = and i1 %s.is.large, %s.is.packed
  br i1 %s.unpacks, label %unpack.data, label %is.unpacked
unpack.data:
  %s.packed = getelementptr i8, ptr %memory, i64 %s.packed.in
  call void @copy_segments(ptr %left, ptr %s.received, i64 %s.num.received, ptr %s.packed, i1 false)
  br label %is.unpacked
is.unpacked:
  %u.next = add i64 %u, 1
  br label %next.unpacked
all:
  call void @note_wait(ptr %record, i64 {WHOLE}, i64 0, i64 %start, i64 %start)
  ret i32 0

failed:
  %error = phi i64 [ {NO_MEMORY}, %prepare ], [ {MPI_FAILED}, %first ], [ {MPI_FAILED}, %failed.at.send ],
    [ %waiting, %wait ], [ %verdict, %judge ], [ {MPI_FAILED}, %repeat ], [ %sending, %await.sent ],
    [ {MPI_FAILED}, %data.received ], [ {MPI_FAILED}, %data.posted ], [ %ending, %end.one ], [ {PEER_FAILED}, %ask ]
  %at.peer = phi i64 [ 0, %prepare ], [ %k, %first ], [ %k, %failed.at.send ],
    [ %a, %wait ], [ %a, %judge ], [ %a, %repeat ], [ %a, %await.sent ],
    [ %d, %data.received ], [ %d, %data.posted ], [ %e.peer, %end.one ], [ %broken, %ask ]
  %count = phi i64 [ 0, %prepare ], [ %n, %first ], [ %n.received, %failed.at.send ],
    [ %n, %wait ], [ %n, %judge ], [ %n, %repeat ], [ %n, %await.sent ],
    [ %m, %data.received ], [ %m.received, %data.posted ], [ %m, %end.one ], [ %m, %ask ]
  %kind = urem i64 %error, {FACTOR}
  %other = udiv i64 %error, {FACTOR}
  %is.other = icmp eq i64 %kind, {PEER_FAILED}
  %is.told = icmp ne i64 %other, 0
  %peer.named = and i1 %is.other, %is.told
  %told.peer = sub i64 %other, 1
  %peer = select i1 %peer.named, i64 %told.peer, i64 %at.peer
  call void @give_up(ptr %run, ptr %record, i64 %kind, i64 %peer, i64 %start, ptr %requests, ptr %owners, i64 %count)
  call void @note_wait(ptr %record, i64 {WHOLE}, i64 0, i64 %start, i64 %start)
  ret i32 1
}}

; Tell a process that a run has failed here. MPI is given a little time to send it: nothing else may call MPI for long.
; The header must live on, for who has not read it by then may do so later.
define void @xloom_announce(ptr %header, i64 %rank, i64 %tag) {{
entry:
  %request = alloca ptr
  %flag = alloca i32
  %rank.32 = trunc i64 %rank to i32
  %tag.32 = trunc i64 %tag to i32
  %failed = call i32 @MPI_Isend(ptr %header, i32 {HEADER_BYTES}, ptr {byte}, i32 %rank.32, i32 %tag.32, ptr {comm},
                                ptr %request)
  %is.begun = icmp eq i32 %failed, 0
  br i1 %is.begun, label %begun, label %end
begun:
  %start = call i64 @now()
  br label %test
test:
  store i32 0, ptr %flag
  %number = call i32 @MPI_Test(ptr %request, ptr %flag, ptr null)
  %set = load i32, ptr %flag
  %is.sent = icmp ne i32 %set, 0
  %now = call i64 @now()
  %waited = sub i64 %now, %start
  %is.late = icmp ugt i64 %waited, {FAREWELL}
  %is.over = or i1 %is.sent, %is.late
  br i1 %is.over, label %over, label %again
again:
  call i32 @sched_yield()
  br label %test
over:
  br i1 %is.sent, label %end, label %free
free:
  call i32 @MPI_Request_free(ptr %request)
  br label %end
end:
  ret void
}}
"""
