"""LLVM IR that tells other processes of a failure, notices theirs, and gives up."""

from __future__ import annotations

from xloom.distributed.communicator import REQUEST_NULL
from xloom.distributed.mpi_ir import COMM, MPI_BYTE
from xloom.distributed.records import EAGER, HEADER, HEADER_BYTES, MISMATCH, PEER, RECORD, RUN, STAGING
from xloom.distributed.struct_ir import field, row
from xloom.distributed.tags import Tags

FAREWELL = 50_000_000
"""Nanoseconds in which the message that a run has failed should be sent, and what follows a header have come."""
FACTOR = 16
"""Errors are smaller: above is the number of the peer that one is about, where that is not who is waited for."""


def failures_ir(tags: Tags) -> str:
    """`failed_peer`, `judge`, `give_up`, `xloom_announce`, `xloom_hear`, and what a run's number in messages is."""
    return f"""
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)

define internal void @note_number(ptr %run, i32 %number) {{
  %wide = zext i32 %number to i64
  %place = getelementptr i8, ptr %run, i64 {RUN.offset("error_number")}
  store i64 %wide, ptr %place
  ret void
}}

; Which of the runs that this process has in common with a peer it is.
define internal i64 @number_of(ptr %run, ptr %peer) {{
{field("numbers", "run", RUN, "numbers", "ptr")}
{field("process", "peer", PEER, "process")}
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

; The header by which a process has told of a failure, if it has come: whether it has.
define i32 @xloom_hear(ptr %header, i64 %rank, i64 %tag) {{
entry:
  %flag = alloca i32
  %message = alloca ptr
  %rank.32 = trunc i64 %rank to i32
  %tag.32 = trunc i64 %tag to i32
  store i32 0, ptr %flag
  %probed = call i32 @MPI_Improbe(i32 %rank.32, i32 %tag.32, ptr {COMM}, ptr %flag, ptr %message, ptr null)
  %is.there = load i32, ptr %flag
  %comes = icmp ne i32 %is.there, 0
  br i1 %comes, label %take, label %end
take:
  call i32 @MPI_Mrecv(ptr %header, i32 {HEADER_BYTES}, ptr {MPI_BYTE}, ptr %message, ptr null)
  br label %end
end:
  ret i32 %is.there
}}

; Has the run failed in one of a record's other processes? The number of that peer, or -1.
define internal i64 @failed_peer(ptr %run, ptr %record) {{
entry:
  %header = alloca [{HEADER_BYTES} x i8]
{field("num.peers", "record", RECORD, "num_peers")}
{field("peers", "record", RECORD, "peers", "ptr")}
  br label %next
next:
  %k = phi i64 [ 0, %entry ], [ %k.next, %no ]
  %are.left = icmp ult i64 %k, %num.peers
  br i1 %are.left, label %peer, label %none
peer:
{row("p", "peers", "k", PEER)}
{field("rank", "p", PEER, "rank")}
  %number = call i64 @number_of(ptr %run, ptr %p)
  %tag = call i64 @stamped(i64 {tags.failure}, i64 %number)
  %is.there = call i32 @xloom_hear(ptr %header, i64 %rank, i64 %tag)
  %comes = icmp ne i32 %is.there, 0
  br i1 %comes, label %look, label %no
look:
{field("their.run", "header", HEADER, "run")}
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
{field("kept", "run", RUN, "their_header", "ptr")}
{field("nbytes", "header", HEADER, "nbytes")}
  call void @llvm.memset.p0.i64(ptr %kept, i8 0, i64 {HEADER_BYTES}, i1 false)
  call void @llvm.memcpy.p0.p0.i64(ptr %kept, ptr %header, i64 %nbytes, i1 false)
  ret void
}}

; Does a header that came belong to this collective? 0, MISMATCH, or -1 for what an earlier run has left.
define internal i64 @judge(ptr %run, ptr %record, ptr %peer, ptr %message) {{
entry:
{field("header", "record", RECORD, "header", "ptr")}
  %my.run = call i64 @number_of(ptr %run, ptr %peer)
{field("their.run", "message", HEADER, "run")}
{field("mine", "header", HEADER, "collective")}
{field("theirs", "message", HEADER, "collective")}
{field("my.program", "header", HEADER, "program")}
{field("their.program", "message", HEADER, "program")}
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
  call void @discard(ptr %peer, ptr %message)
  %is.old = icmp ult i64 %their.run, %my.run
  %verdict = select i1 %is.old, i64 -1, i64 {MISMATCH}
  ret i64 %verdict
}}

; Take what follows a header that does not fit away: a later run whose tags are the same must not find it.
define internal void @discard(ptr %peer, ptr %message) {{
entry:
  %flag = alloca i32
  %found = alloca ptr
{field("follow", "message", HEADER, "follow")}
{field("their.run", "message", HEADER, "run")}
{field("rank", "peer", PEER, "rank")}
{field("data.tag", "peer", PEER, "data_tag")}
  %tag = call i64 @stamped(i64 %data.tag, i64 %their.run)
  %rank.32 = trunc i64 %rank to i32
  %tag.32 = trunc i64 %tag to i32
  %memory = call ptr @aligned_alloc(i64 64, i64 {EAGER})
  %is.none = icmp eq ptr %memory, null
  %count = select i1 %is.none, i64 0, i64 %follow
  %start = call i64 @now()
  br label %next
next:
  %k = phi i64 [ 0, %entry ], [ %k.next, %take ]
  %are.left = icmp ult i64 %k, %count
  br i1 %are.left, label %look, label %end
look:
  store i32 0, ptr %flag
  %probed = call i32 @MPI_Improbe(i32 %rank.32, i32 %tag.32, ptr {COMM}, ptr %flag, ptr %found, ptr null)
  %is.there = load i32, ptr %flag
  %comes = icmp ne i32 %is.there, 0
  br i1 %comes, label %take, label %wait
take:
  call i32 @MPI_Mrecv(ptr %memory, i32 {EAGER}, ptr {MPI_BYTE}, ptr %found, ptr null)
  %k.next = add i64 %k, 1
  br label %next
wait:
  call i32 @sched_yield()
  %now = call i64 @now()
  %waited = sub i64 %now, %start
  %is.late = icmp ugt i64 %waited, {FAREWELL}
  br i1 %is.late, label %end, label %look
end:
  call void @free(ptr %memory)
  ret void
}}

; Nanoseconds since *%start, which is noted now unless it has been.
define internal i64 @waited(ptr %start) {{
  %now = call i64 @now()
  %noted = load i64, ptr %start
  %is.new = icmp eq i64 %noted, 0
  %since = select i1 %is.new, i64 %now, i64 %noted
  store i64 %since, ptr %start
  %nanoseconds = sub i64 %now, %since
  ret i64 %nanoseconds
}}

; Say what went wrong, unless another group has; give up what is under way, with the memory that it may still touch.
define internal void @give_up(ptr %run, ptr %record, i64 %error, i64 %peer, ptr %start, ptr %requests, ptr %owners,
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
  %waited = call i64 @waited(ptr %start)
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
{field("staging", "record", RECORD, "staging", "ptr")}
  store ptr null, ptr %staging
  %size.place = getelementptr i8, ptr %staging, i64 {STAGING.offset("nbytes")}
  store i64 0, ptr %size.place
  ret void
}}

; Tell a process that a run has failed here. MPI is given a little time to send it: nothing else may call MPI for long.
; The header must live on, for who has not read it by then may do so later.
define void @xloom_announce(ptr %header, i64 %rank, i64 %tag) {{
entry:
  %request = alloca ptr
  %flag = alloca i32
  %rank.32 = trunc i64 %rank to i32
  %tag.32 = trunc i64 %tag to i32
  %failed = call i32 @MPI_Isend(ptr %header, i32 {HEADER_BYTES}, ptr {MPI_BYTE}, i32 %rank.32, i32 %tag.32, ptr {COMM},
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
