"""LLVM IR of an exchange: what a group's last member to arrive does so that the operands of other processes are here.

To each peer goes a header, which says what the message is for. Small operands are in the same message; larger ones
follow at once as far as MPI takes them before anybody asks, others when the header of the peer has come. Nothing is
received as data before that fits: processes that run different programs notice before. Once they have seen in a run
that they run the same, who only sends does not wait for headers each time, nor at the end of the run: the first
exchange of the next one shows whether the other side is still there, and would tell no more of this one, whose results
do not depend on it. All calls return at once.
"""

from __future__ import annotations

from xloom.cpu.runtime.threads.host_ir import host_ir
from xloom.distributed.communicator import REQUEST_NULL
from xloom.distributed.failures_ir import FACTOR, failures_ir
from xloom.distributed.mpi_ir import MPI_DECLARATIONS
from xloom.distributed.posting_ir import posting_ir
from xloom.distributed.records import (
    EAGER,
    FIRST_BYTES,
    HEADER,
    INLINE,
    LANE,
    MPI_FAILED,
    NO_MEMORY,
    PEER,
    PEER_FAILED,
    RECORD,
    RUN,
    UNANSWERED,
)
from xloom.distributed.staging_ir import staging_ir
from xloom.distributed.struct_ir import field, row
from xloom.distributed.tags import Tags
from xloom.distributed.turns_ir import turns_ir
from xloom.distributed.waiting_ir import PER_BYTE, YIELDING, waiting_ir
from xloom.distributed.waits import ONE_SIDED, WHOLE, waits_ir


def exchange_ir(tags: Tags) -> str:
    """`xloom_exchange` and `xloom_announce`, among the processes of an MPI communicator; and `turns_ir`."""
    return f"""
{host_ir()}
{turns_ir()}
{waits_ir()}
{MPI_DECLARATIONS}
declare i32 @sched_yield()
declare i32 @nanosleep(ptr, ptr)
declare ptr @aligned_alloc(i64, i64)
declare void @free(ptr)
{posting_ir()}
{waiting_ir()}
{failures_ir(tags)}
{staging_ir()}

; Does a header come from a peer that sends nothing else? Its side of the lane finds the same: both have counted what
; went before in this run, which began with headers from both.
define internal i64 @is_answered(ptr %run, ptr %peer) {{
{field("is.one.way", "peer", PEER, "is_one_way")}
{field("lane", "peer", PEER, "lane", "ptr")}
{field("last.run", "lane", LANE, "run")}
{field("before", "lane", LANE, "unanswered")}
  %number = call i64 @number_of(ptr %run, ptr %peer)
  %is.known = icmp eq i64 %last.run, %number
  %are.few = icmp ult i64 %before, {UNANSWERED}
  %may.go = and i1 %is.known, %are.few
  %goes.one.way = icmp ne i64 %is.one.way, 0
  %is.silent = and i1 %may.go, %goes.one.way
  %more = add i64 %before, 1
  %unanswered = select i1 %is.silent, i64 %more, i64 0
  store i64 %number, ptr %last.run.place
  store i64 %unanswered, ptr %before.place
  %answered = select i1 %is.silent, i64 0, i64 1
  %answered.place = getelementptr i8, ptr %peer, i64 {PEER.offset("is_answered")}
  store i64 %answered, ptr %answered.place
  ret i64 %answered
}}

; Does a message come from a peer in this exchange, once `is_answered` has been asked?
define internal i1 @does_hear(ptr %peer) {{
{field("is.answered", "peer", PEER, "is_answered")}
{field("received.bytes", "peer", PEER, "received_bytes")}
  %comes = or i64 %is.answered, %received.bytes
  %does = icmp ne i64 %comes, 0
  ret i1 %does
}}

; A request that is over, in place of a message that does not go.
define internal i64 @post_none(ptr %requests, i64 %begun) {{
  %request = getelementptr ptr, ptr %requests, i64 %begun
  store i64 {REQUEST_NULL}, ptr %request
  %n = add i64 %begun, 1
  ret i64 %n
}}

; How many messages of data follow a header at once.
define internal i64 @following(ptr %peer) {{
{field("num.sent", "peer", PEER, "num_sent")}
{field("sent.bytes", "peer", PEER, "sent_bytes")}
{field("sends.packed", "peer", PEER, "sends_packed")}
  %over = sub i64 %sent.bytes, {INLINE + 1}
  %do.follow = icmp ult i64 %over, {EAGER - INLINE}
  %is.one = icmp ne i64 %sends.packed, 0
  %all = select i1 %is.one, i64 1, i64 %num.sent
  %count = select i1 %do.follow, i64 %all, i64 0
  ret i64 %count
}}

; Begin to send a peer what does not go with the header. The number of requests, or -1 after an error of MPI.
define internal i64 @send_data(ptr %run, ptr %left, ptr %memory, ptr %peer, ptr %requests, ptr %owners, i64 %number,
                               i64 %begun) {{
entry:
{field("rank", "peer", PEER, "rank")}
{field("data.tag", "peer", PEER, "data_tag")}
  %run.number = call i64 @number_of(ptr %run, ptr %peer)
  %tag = call i64 @stamped(i64 %data.tag, i64 %run.number)
{field("num.sent", "peer", PEER, "num_sent")}
{field("sent", "peer", PEER, "sent", "ptr")}
{field("sent.bytes", "peer", PEER, "sent_bytes")}
{field("sends.packed", "peer", PEER, "sends_packed")}
{field("packed.out", "peer", PEER, "packed_out")}
  %goes.packed = icmp ne i64 %sends.packed, 0
  br i1 %goes.packed, label %send.packed, label %send.segments
send.packed:
  %out = getelementptr i8, ptr %memory, i64 %packed.out
  call void @copy_segments(ptr %left, ptr %sent, i64 %num.sent, ptr %out, i1 true)
  %n.1 = call i64 @post(ptr %run, i1 true, ptr %out, i64 %sent.bytes, i64 %rank, i64 %tag, ptr %requests, ptr %owners,
                        i64 %number, i64 %begun)
  ret i64 %n.1
send.segments:
  %n.2 = call i64 @post_segments(ptr %run, i1 true, ptr %left, ptr %sent, i64 %num.sent, i64 %rank, i64 %tag,
                                 ptr %requests, ptr %owners, i64 %number, i64 %begun)
  ret i64 %n.2
}}

; Bring here what the members of a group that are here will read of others, and send others what they will. 0, or 1 if
; that cannot be: the run says why.
define i32 @xloom_exchange(ptr %run, ptr %record, ptr %left) {{
entry:
  %start = alloca i64
  %begins = call i64 @wait_begins()
  store i64 %begins, ptr %start
{field("num.peers", "record", RECORD, "num_peers")}
{field("peers", "record", RECORD, "peers", "ptr")}
{field("header", "record", RECORD, "header", "ptr")}
{field("requests.at", "record", RECORD, "requests")}
{field("owners.at", "record", RECORD, "owners")}
  %is.open.place = getelementptr i8, ptr %run, i64 {RUN.offset("is_open")}
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
  br i1 %firsts.left, label %first, label %next.early
first:
{row("p", "peers", "k", PEER)}
{field("p.rank", "p", PEER, "rank")}
{field("p.tag", "p", PEER, "tag")}
{field("p.in", "p", PEER, "message_in")}
{field("p.out", "p", PEER, "message_out")}
{field("p.sent", "p", PEER, "sent", "ptr")}
{field("p.num.sent", "p", PEER, "num_sent")}
{field("p.sent.bytes", "p", PEER, "sent_bytes")}
{field("p.full.header", "p", PEER, "header_bytes")}
  %in = getelementptr i8, ptr %memory, i64 %p.in
  %out = getelementptr i8, ptr %memory, i64 %p.out
  %p.answered = call i64 @is_answered(ptr %run, ptr %p)
  %p.is.answered = icmp ne i64 %p.answered, 0
  %p.header = select i1 %p.is.answered, i64 %p.full.header, i64 {HEADER.size}
  %p.hears = call i1 @does_hear(ptr %p)
  br i1 %p.hears, label %hear, label %hear.none
hear.none:
  %n.none = call i64 @post_none(ptr %requests, i64 %n)
  br label %heard
hear:
  %n.heard = call i64 @post(ptr %run, i1 false, ptr %in, i64 {FIRST_BYTES}, i64 %p.rank, i64 %p.tag, ptr %requests,
                            ptr %owners, i64 %k, i64 %n)
  %receives = icmp sge i64 %n.heard, 0
  br i1 %receives, label %heard, label %failed
heard:
  %n.received = phi i64 [ %n.none, %hear.none ], [ %n.heard, %hear ]
  %p.takes = or i64 %p.answered, %p.sent.bytes
  %p.tells = icmp ne i64 %p.takes, 0
  br i1 %p.tells, label %write, label %tell.none
tell.none:
  %n.silent = call i64 @post_none(ptr %requests, i64 %n.received)
  br label %first.sent
write:
  call void @llvm.memcpy.p0.p0.i64(ptr %out, ptr %header, i64 %p.header, i1 false)
  %out.nbytes = getelementptr i8, ptr %out, i64 {HEADER.offset("nbytes")}
  store i64 %p.header, ptr %out.nbytes
  %out.run = getelementptr i8, ptr %out, i64 {HEADER.offset("run")}
  %p.number = call i64 @number_of(ptr %run, ptr %p)
  store i64 %p.number, ptr %out.run
  %follow = call i64 @following(ptr %p)
  %out.follow = getelementptr i8, ptr %out, i64 {HEADER.offset("follow")}
  store i64 %follow, ptr %out.follow
  %is.inline = icmp ule i64 %p.sent.bytes, {INLINE}
  br i1 %is.inline, label %pack, label %send
pack:
  %payload = getelementptr i8, ptr %out, i64 %p.header
  call void @copy_segments(ptr %left, ptr %p.sent, i64 %p.num.sent, ptr %payload, i1 true)
  %with.payload = add i64 %p.sent.bytes, %p.header
  br label %send
send:
  %size = phi i64 [ %p.header, %write ], [ %with.payload, %pack ]
  %n.told = call i64 @post(ptr %run, i1 true, ptr %out, i64 %size, i64 %p.rank, i64 %p.tag, ptr %requests, ptr %owners,
                           i64 %k, i64 %n.received)
  %sends = icmp sge i64 %n.told, 0
  br i1 %sends, label %first.sent, label %failed.at.send
failed.at.send:
  br label %failed
first.sent:
  %n.sent = phi i64 [ %n.silent, %tell.none ], [ %n.told, %send ]
  %k.next = add i64 %k, 1
  br label %next.first

next.early:
  %g = phi i64 [ 0, %next.first ], [ %g.next, %early.sent ]
  %early = phi i64 [ %n, %next.first ], [ %early.after, %early.sent ]
  %earlies.left = icmp ult i64 %g, %num.peers
  br i1 %earlies.left, label %early.peer, label %next.answer
early.peer:
{row("v", "peers", "g", PEER)}
  %v.follow = call i64 @following(ptr %v)
  %goes.early = icmp ne i64 %v.follow, 0
  br i1 %goes.early, label %send.early, label %early.sent
send.early:
  store i64 1, ptr %is.open.place
  %early.more = call i64 @send_data(ptr %run, ptr %left, ptr %memory, ptr %v, ptr %requests, ptr %owners, i64 %g,
                                    i64 %early)
  %early.is.sent = icmp sge i64 %early.more, 0
  br i1 %early.is.sent, label %early.sent, label %failed
early.sent:
  %early.after = phi i64 [ %early, %early.peer ], [ %early.more, %send.early ]
  %g.next = add i64 %g, 1
  br label %next.early

next.answer:
  %a = phi i64 [ 0, %next.early ], [ %a.next, %noted ]
  %a.start = call i64 @wait_begins()
  %answers.left = icmp ult i64 %a, %num.peers
  br i1 %answers.left, label %answer, label %next.data
answer:
{row("q", "peers", "a", PEER)}
{field("q.rank", "q", PEER, "rank")}
{field("q.tag", "q", PEER, "tag")}
{field("q.in", "q", PEER, "message_in")}
{field("q.received", "q", PEER, "received", "ptr")}
{field("q.num.received", "q", PEER, "num_received")}
{field("q.received.bytes", "q", PEER, "received_bytes")}
  %message = getelementptr i8, ptr %memory, i64 %q.in
  %a.twice = shl i64 %a, 1
  %a.request = getelementptr ptr, ptr %requests, i64 %a.twice
{field("q.answered", "q", PEER, "is_answered")}
  %q.hears = call i1 @does_hear(ptr %q)
  br i1 %q.hears, label %wait, label %await.sent
wait:
  %waiting = call i64 @wait_for(ptr %run, ptr %record, ptr %a.request, ptr %start, i64 {YIELDING})
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
  %q.header.place = getelementptr i8, ptr %q, i64 {PEER.offset("header_bytes")}
  store i64 {HEADER.size}, ptr %q.header.place
{field("came.header", "message", HEADER, "nbytes")}
  %came.inline = icmp ule i64 %q.received.bytes, {INLINE}
  br i1 %came.inline, label %unpack, label %await.sent
unpack:
  %q.payload = getelementptr i8, ptr %message, i64 %came.header
  call void @copy_segments(ptr %left, ptr %q.received, i64 %q.num.received, ptr %q.payload, i1 false)
  br label %await.sent
await.sent:
  %sent.request = getelementptr ptr, ptr %a.request, i64 1
  %sending = call i64 @wait_for(ptr %run, ptr %record, ptr %sent.request, ptr %start, i64 {YIELDING})
  %is.sent = icmp eq i64 %sending, 0
  br i1 %is.sent, label %answered, label %failed
answered:
  br i1 %q.hears, label %note, label %noted
note:
  %q.number = call i64 @number_of(ptr %run, ptr %q)
  %q.is.answered = icmp ne i64 %q.answered, 0
  %q.began = select i1 %q.is.answered, i64 %begins, i64 {ONE_SIDED}
  call void @note_wait(ptr %record, i64 %a, i64 %q.number, i64 %q.began, i64 %a.start)
  br label %noted
noted:
  %a.next = add i64 %a, 1
  br label %next.answer

next.data:
  %d = phi i64 [ 0, %next.answer ], [ %d.next, %data.sent ]
  %m = phi i64 [ %early, %next.answer ], [ %m.sent, %data.sent ]
  %bytes = phi i64 [ 0, %next.answer ], [ %bytes.next, %data.sent ]
  %data.left = icmp ult i64 %d, %num.peers
  br i1 %data.left, label %data, label %data.begun
data:
{row("r", "peers", "d", PEER)}
{field("r.rank", "r", PEER, "rank")}
{field("r.data.tag", "r", PEER, "data_tag")}
  %r.number = call i64 @number_of(ptr %run, ptr %r)
  %r.tag = call i64 @stamped(i64 %r.data.tag, i64 %r.number)
{field("r.sent.bytes", "r", PEER, "sent_bytes")}
{field("r.num.received", "r", PEER, "num_received")}
{field("r.received", "r", PEER, "received", "ptr")}
{field("r.received.bytes", "r", PEER, "received_bytes")}
{field("r.receives.packed", "r", PEER, "receives_packed")}
{field("r.packed.in", "r", PEER, "packed_in")}
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
  %data.goes = icmp ugt i64 %r.sent.bytes, {EAGER}
  br i1 %data.receives, label %may.send, label %failed.at.data
may.send:
  br i1 %data.goes, label %send.data, label %data.posted
send.data:
  %m.3 = call i64 @send_data(ptr %run, ptr %left, ptr %memory, ptr %r, ptr %requests, ptr %owners, i64 %d,
                             i64 %m.received)
  br label %data.posted
data.posted:
  %m.sent = phi i64 [ %m.received, %may.send ], [ %m.3, %send.data ]
  %data.is.sent = icmp sge i64 %m.sent, 0
  br i1 %data.is.sent, label %data.sent, label %failed.at.data
data.sent:
  %d.next = add i64 %d, 1
  %both.bytes = add i64 %r.sent.bytes, %r.received.bytes
  %bytes.next = add i64 %bytes, %both.bytes
  br label %next.data

data.begun:
  %had.data = icmp ugt i64 %m, %n
  br i1 %had.data, label %data.time, label %all
data.time:
  %so.far = call i64 @waited(ptr %start)
  %bytes.time = mul i64 %bytes, {PER_BYTE}
  %data.time.most = add i64 %bytes.time, {YIELDING}
  %awake = add i64 %so.far, %data.time.most
  br label %next.end
next.end:
  %e = phi i64 [ %n, %data.time ], [ %e.next, %ended ]
  %ends.left = icmp ult i64 %e, %m
  br i1 %ends.left, label %end.one, label %ask
end.one:
  %e.request = getelementptr ptr, ptr %requests, i64 %e
  %ending = call i64 @wait_for(ptr %run, ptr %record, ptr %e.request, ptr %start, i64 %awake)
  %e.owner.place = getelementptr i64, ptr %owners, i64 %e
  %e.owner = load i64, ptr %e.owner.place
  %e.peer = lshr i64 %e.owner, 1
  %is.ended = icmp eq i64 %ending, 0
  br i1 %is.ended, label %ended, label %failed.at.data
ended:
  %e.next = add i64 %e, 1
  br label %next.end
ask: ; who has failed may have given the memory back that this was read from
  %broken = call i64 @failed_peer(ptr %run, ptr %record)
  %are.well = icmp slt i64 %broken, 0
  br i1 %are.well, label %next.unpacked, label %failed

next.unpacked:
  %u = phi i64 [ 0, %ask ], [ %u.next, %is.unpacked ]
  %unpacked.left = icmp ult i64 %u, %num.peers
  br i1 %unpacked.left, label %unpack.one, label %all
unpack.one:
{row("s", "peers", "u", PEER)}
{field("s.num.received", "s", PEER, "num_received")}
{field("s.received", "s", PEER, "received", "ptr")}
{field("s.received.bytes", "s", PEER, "received_bytes")}
{field("s.receives.packed", "s", PEER, "receives_packed")}
{field("s.packed.in", "s", PEER, "packed_in")}
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
  call void @note_wait(ptr %record, i64 {WHOLE}, i64 0, i64 %begins, i64 %begins)
  ret i32 0

failed.at.data:
  %data.error = phi i64 [ {MPI_FAILED}, %data.received ], [ {MPI_FAILED}, %data.posted ], [ %ending, %end.one ]
  %data.peer = phi i64 [ %d, %data.received ], [ %d, %data.posted ], [ %e.peer, %end.one ]
  %data.count = phi i64 [ %m, %data.received ], [ %m.received, %data.posted ], [ %m, %end.one ]
  store i64 1, ptr %is.open.place
  br label %failed
failed:
  %error = phi i64 [ {NO_MEMORY}, %prepare ], [ {MPI_FAILED}, %hear ], [ {MPI_FAILED}, %failed.at.send ],
    [ {MPI_FAILED}, %send.early ],
    [ %waiting, %wait ], [ %verdict, %judge ], [ {MPI_FAILED}, %repeat ], [ %sending, %await.sent ],
    [ %data.error, %failed.at.data ], [ {PEER_FAILED}, %ask ]
  %at.peer = phi i64 [ 0, %prepare ], [ %k, %hear ], [ %k, %failed.at.send ], [ %g, %send.early ],
    [ %a, %wait ], [ %a, %judge ], [ %a, %repeat ], [ %a, %await.sent ],
    [ %data.peer, %failed.at.data ], [ %broken, %ask ]
  %count = phi i64 [ 0, %prepare ], [ %n, %hear ], [ %n.received, %failed.at.send ], [ %early, %send.early ],
    [ %early, %wait ], [ %early, %judge ], [ %early, %repeat ], [ %early, %await.sent ],
    [ %data.count, %failed.at.data ], [ %m, %ask ]
  %kind = urem i64 %error, {FACTOR}
  %other = udiv i64 %error, {FACTOR}
  %is.other = icmp eq i64 %kind, {PEER_FAILED}
  %is.told = icmp ne i64 %other, 0
  %peer.named = and i1 %is.other, %is.told
  %told.peer = sub i64 %other, 1
  %peer = select i1 %peer.named, i64 %told.peer, i64 %at.peer
  call void @give_up(ptr %run, ptr %record, i64 %kind, i64 %peer, ptr %start, ptr %requests, ptr %owners, i64 %count)
  call void @note_wait(ptr %record, i64 {WHOLE}, i64 0, i64 %begins, i64 %begins)
  ret i32 1
}}
"""
