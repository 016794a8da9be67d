"""What looks for elements that are not finite, and makes outputs NaN, as text of LLVM functions.

`number K of %table` loads the i64 at K; K, like all names between backquotes, is put in by who expands the text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

HEADER = 'target triple = "unknown-unknown-unknown"\ntarget datalayout = ""\n'
LOOKS = """
declare `V` @llvm.umax.`v`(`V`, `V`)

; whether any of words [begin, end) of so many is not finite, or of those that the last vector has before them
define internal zeroext i1 @near.`t`(ptr %from, i64 %begin, i64 %end, i64 %count) nounwind {
entry:
  %last = sub i64 %count, `LANES`
  br label %head
head:
  %k = phi i64 [%begin, %entry], [%next, %body]
  %most = phi `V` [zeroinitializer, %entry], [%more, %body]
  %goes_on = icmp slt i64 %k, %end
  br i1 %goes_on, label %body, label %done
body:
  %is_whole = icmp slt i64 %k, %last
  %at = select i1 %is_whole, i64 %k, i64 %last
  %place = getelementptr `T`, ptr %from, i64 %at
  %x = load `V`, ptr %place, align `A`
  %bits = xor `V` %x, splat (`T` `FLIPPED`)
  %size = and `V` %bits, splat (`T` `KEPT`)
  %more = call `V` @llvm.umax.`v`(`V` %most, `V` %size)
  %next = add i64 %k, `LANES`
  br label %head
done:
  %large = icmp uge `V` %most, splat (`T` `LEAST`)
  %which = bitcast <`LANES` x i1> %large to i`LANES`
  %any = icmp ne i`LANES` %which, 0
  ret i1 %any
}

; whether any of so many elements is not finite, which lie so many words apart
define internal zeroext i1 @any.`t`(ptr %from, i64 %count, i64 %step) nounwind {
entry:
  br label %head
head:
  %k = phi i64 [0, %entry], [%next, %body]
  %goes_on = icmp slt i64 %k, %count
  br i1 %goes_on, label %body, label %done
body:
  %at = mul i64 %k, %step
  %place0 = getelementptr `T`, ptr %from, i64 %at
  %place1 = getelementptr `T`, ptr %place0, i64 `LAST`
  %x0 = load `T`, ptr %place0
  %x1 = load `T`, ptr %place1
  %bits0 = xor `T` %x0, `FLIPPED`
  %bits1 = xor `T` %x1, `FLIPPED`
  %size0 = and `T` %bits0, `KEPT`
  %size1 = and `T` %bits1, `KEPT`
  %large0 = icmp uge `T` %size0, `LEAST`
  %large1 = icmp uge `T` %size1, `LEAST`
  %large = or i1 %large0, %large1
  %next = add i64 %k, 1
  br i1 %large, label %found, label %head
found:
  ret i1 true
done:
  ret i1 false
}
"""
"""Of one type of words."""
FUNCTIONS = """
; the place of the first output that a tap of a dimension meets, the holes counted
define internal i64 @first(ptr %dim, i64 %tap) nounwind {
  %spread = number `spread` of %dim
  %before = number `before` of %dim
  %after = mul i64 %tap, %spread
  %first = sub i64 %after, %before
  ret i64 %first
}

; whether there is an element
define internal zeroext i1 @has(ptr %dim, i64 %place) nounwind {
  %extent = number `extent` of %dim
  %dilation = number `dilation` of %dim
  %is_inside = icmp ult i64 %place, %extent
  %hole = urem i64 %place, %dilation
  %is_no_hole = icmp eq i64 %hole, 0
  %has = and i1 %is_inside, %is_no_hole
  ret i1 %has
}

; makes a feature NaN wherever a tap, counted with those of the last dimension adjacent, meets no element
define internal void @spoil(ptr %numbers, ptr %y, i64 %feature, i64 %tap) cold nounwind {
entry:
  %images = number `images` of %numbers
  %y_feature = number `y_feature` of %numbers
  %y_image = number `y_image` of %numbers
  %rank = number `rank` of %numbers
  %lines = number `lines` of %numbers
  %dims = getelementptr i64, ptr %numbers, i64 `DIMS`
  %size = number `size` of %dims
  %y_step = number `y_step` of %dims
  %stride = number `stride` of %dims
  %outputs = number `outputs` of %dims
  %last.tap = urem i64 %tap, %size
  %other.taps = udiv i64 %tap, %size
  %first = call i64 @first(ptr %dims, i64 %last.tap)
  %start = mul i64 %feature, %y_feature
  br label %line
line:
  %l = phi i64 [0, %entry], [%l.next, %line.done]
  %l.goes_on = icmp slt i64 %l, %lines
  br i1 %l.goes_on, label %digit, label %done
digit:
  %d = phi i64 [1, %line], [%d.next, %digit.body]
  %digits = phi i64 [%l, %line], [%digits.next, %digit.body]
  %taps = phi i64 [%other.taps, %line], [%taps.next, %digit.body]
  %at = phi i64 [%start, %line], [%at.next, %digit.body]
  %is_met = phi i1 [true, %line], [%is_met.next, %digit.body]
  %d.goes_on = icmp slt i64 %d, %rank
  br i1 %d.goes_on, label %digit.body, label %output
digit.body:
  %dim = getelementptr `DIM`, ptr %dims, i64 %d
  %dim.size = number `size` of %dim
  %dim.outputs = number `outputs` of %dim
  %dim.y_step = number `y_step` of %dim
  %dim.stride = number `stride` of %dim
  %dim.output = urem i64 %digits, %dim.outputs
  %digits.next = udiv i64 %digits, %dim.outputs
  %dim.tap = urem i64 %taps, %dim.size
  %taps.next = udiv i64 %taps, %dim.size
  %dim.first = call i64 @first(ptr %dim, i64 %dim.tap)
  %dim.after = mul i64 %dim.output, %dim.stride
  %dim.place = add i64 %dim.first, %dim.after
  %dim.has = call zeroext i1 @has(ptr %dim, i64 %dim.place)
  %is_met.next = and i1 %is_met, %dim.has
  %step = mul i64 %dim.output, %dim.y_step
  %at.next = add i64 %at, %step
  %d.next = add i64 %d, 1
  br label %digit
output:
  %o = phi i64 [0, %digit], [%o.next, %output.done]
  %to = phi i64 [%at, %digit], [%to.next, %output.done]
  %place = phi i64 [%first, %digit], [%place.next, %output.done]
  %o.goes_on = icmp slt i64 %o, %outputs
  br i1 %o.goes_on, label %output.body, label %line.done
output.body:
  %has = call zeroext i1 @has(ptr %dims, i64 %place)
  %is_element = and i1 %is_met, %has
  br i1 %is_element, label %output.done, label %image
image:
  %i = phi i64 [0, %output.body], [%i.next, %image.body]
  %i.goes_on = icmp slt i64 %i, %images
  br i1 %i.goes_on, label %image.body, label %output.done
image.body:
  %from.first = mul i64 %i, %y_image
  %word = add i64 %to, %from.first
  %place0 = getelementptr `Y`, ptr %y, i64 %word
  %place1 = getelementptr `Y`, ptr %place0, i64 `LAST`
  store `Y` `NAN`, ptr %place0
  store `Y` `NAN`, ptr %place1
  %i.next = add i64 %i, 1
  br label %image
output.done:
  %o.next = add i64 %o, 1
  %to.next = add i64 %to, %y_step
  %place.next = add i64 %place, %stride
  br label %output
line.done:
  %l.next = add i64 %l, 1
  br label %line
done:
  ret void
}

; whether any of the features is not finite, or of those beside them, in outputs that say so of the kernel
define internal zeroext i1 @look(ptr %numbers, ptr %y, i64 %begin, i64 %end) nounwind {
entry:
  %features = number `features` of %numbers
  %y_feature = number `y_feature` of %numbers
  %rank = number `rank` of %numbers
  %seen = number `seen` of %numbers
  %dims = getelementptr i64, ptr %numbers, i64 `DIMS`
  %words = mul i64 %features, `PARTS`
  %first = mul i64 %begin, `PARTS`
  %last = mul i64 %end, `PARTS`
  %count = sub i64 %end, %begin
  %start = mul i64 %begin, %y_feature
  %is_near = icmp eq i64 %y_feature, `PARTS`
  %is_long = icmp sge i64 %words, `YLANES`
  %has_vectors = and i1 %is_near, %is_long
  br label %output
output:
  %o = phi i64 [0, %entry], [%o.next, %output.done]
  %o.goes_on = icmp slt i64 %o, %seen
  br i1 %o.goes_on, label %digit, label %done
digit:
  %d = phi i64 [0, %output], [%d.next, %digit.body]
  %digits = phi i64 [%o, %output], [%digits.next, %digit.body]
  %at = phi i64 [0, %output], [%at.next, %digit.body]
  %d.goes_on = icmp slt i64 %d, %rank
  br i1 %d.goes_on, label %digit.body, label %read
digit.body:
  %dim = getelementptr `DIM`, ptr %dims, i64 %d
  %dim.first = number `seen_first` of %dim
  %dim.count = number `seen_count` of %dim
  %dim.y_step = number `y_step` of %dim
  %dim.digit = urem i64 %digits, %dim.count
  %digits.next = udiv i64 %digits, %dim.count
  %dim.output = add i64 %dim.digit, %dim.first
  %step = mul i64 %dim.output, %dim.y_step
  %at.next = add i64 %at, %step
  %d.next = add i64 %d, 1
  br label %digit
read:
  %place = getelementptr `Y`, ptr %y, i64 %at
  br i1 %has_vectors, label %vectors, label %scalars
vectors:
  %any.near = call zeroext i1 @near.`y`(ptr %place, i64 %first, i64 %last, i64 %words)
  br i1 %any.near, label %found, label %output.done
scalars:
  %one = getelementptr `Y`, ptr %place, i64 %start
  %any = call zeroext i1 @any.`y`(ptr %one, i64 %count, i64 %y_feature)
  br i1 %any, label %found, label %output.done
output.done:
  %o.next = add i64 %o, 1
  br label %output
found:
  ret i1 true
done:
  ret i1 false
}

; whether any element of the kernel is not finite that some features have, or one beside those
define internal zeroext i1 @read(ptr %numbers, ptr %w, i64 %begin, i64 %end) nounwind {
entry:
  %features = number `features` of %numbers
  %w_feature = number `w_feature` of %numbers
  %rows = number `rows` of %numbers
  %row.words = mul i64 %features, %w_feature
  %words = mul i64 %row.words, %rows
  %first = mul i64 %begin, %w_feature
  %last = mul i64 %end, %w_feature
  %is_short = icmp slt i64 %words, `WLANES`
  %count = sub i64 %end, %begin
  %are_all = icmp eq i64 %count, %features
  br i1 %is_short, label %found, label %several
several:
  br i1 %are_all, label %all, label %row
all:
  %any.of.all = call zeroext i1 @near.`w`(ptr %w, i64 0, i64 %words, i64 %words)
  ret i1 %any.of.all
row:
  %r = phi i64 [0, %several], [%r.next, %row.done]
  %r.goes_on = icmp slt i64 %r, %rows
  br i1 %r.goes_on, label %row.body, label %done
row.body:
  %start = mul i64 %r, %row.words
  %from = add i64 %start, %first
  %to = add i64 %start, %last
  %any = call zeroext i1 @near.`w`(ptr %w, i64 %from, i64 %to, i64 %words)
  br i1 %any, label %found, label %row.done
row.done:
  %r.next = add i64 %r, 1
  br label %row
found:
  ret i1 true
done:
  ret i1 false
}

; goes through the taps of some features
define internal void @search(ptr %numbers, ptr %w, ptr %y, i64 %begin, i64 %end) cold nounwind {
entry:
  %w_base = number `w_base` of %numbers
  %w_feature = number `w_feature` of %numbers
  %inputs = number `inputs` of %numbers
  %w_input = number `w_input` of %numbers
  %rank = number `rank` of %numbers
  %taps = number `taps` of %numbers
  %dims = getelementptr i64, ptr %numbers, i64 `DIMS`
  br label %feature
feature:
  %f = phi i64 [%begin, %entry], [%f.next, %feature.done]
  %f.goes_on = icmp slt i64 %f, %end
  br i1 %f.goes_on, label %feature.body, label %done
feature.body:
  %after = mul i64 %f, %w_feature
  %start = add i64 %w_base, %after
  br label %tap
tap:
  %t = phi i64 [0, %feature.body], [%t.next, %tap.done]
  %t.goes_on = icmp slt i64 %t, %taps
  br i1 %t.goes_on, label %digit, label %feature.done
digit:
  %d = phi i64 [0, %tap], [%d.next, %digit.body]
  %digits = phi i64 [%t, %tap], [%digits.next, %digit.body]
  %at = phi i64 [%start, %tap], [%at.next, %digit.body]
  %d.goes_on = icmp slt i64 %d, %rank
  br i1 %d.goes_on, label %digit.body, label %look
digit.body:
  %dim = getelementptr `DIM`, ptr %dims, i64 %d
  %dim.size = number `size` of %dim
  %dim.w_step = number `w_step` of %dim
  %dim.tap = urem i64 %digits, %dim.size
  %digits.next = udiv i64 %digits, %dim.size
  %step = mul i64 %dim.tap, %dim.w_step
  %at.next = add i64 %at, %step
  %d.next = add i64 %d, 1
  br label %digit
look:
  %place = getelementptr `W`, ptr %w, i64 %at
  %any = call zeroext i1 @any.`w`(ptr %place, i64 %inputs, i64 %w_input)
  br i1 %any, label %found, label %tap.done
found:
  call void @spoil(ptr %numbers, ptr %y, i64 %f, i64 %t)
  br label %tap.done
tap.done:
  %t.next = add i64 %t, 1
  br label %tap
feature.done:
  %f.next = add i64 %f, 1
  br label %feature
done:
  ret void
}

define void @"`NAME`"(ptr %numbers, ptr %w, ptr %y, i64 %begin, i64 %end) nounwind {
entry:
  %seen = number `seen` of %numbers
  %is_seen = icmp ne i64 %seen, 0
  br i1 %is_seen, label %look, label %read
look:
  %is_suspect = call zeroext i1 @look(ptr %numbers, ptr %y, i64 %begin, i64 %end)
  br i1 %is_suspect, label %read, label %done
read:
  %is_found = call zeroext i1 @read(ptr %numbers, ptr %w, i64 %begin, i64 %end)
  br i1 %is_found, label %search, label %done
search:
  call void @search(ptr %numbers, ptr %w, ptr %y, i64 %begin, i64 %end)
  br label %done
done:
  ret void
}
"""
"""The rest, and the function that convolutions call."""


def expanded(text: str, names: Mapping[str, str]) -> str:
    """`text` with what stands between backquotes replaced."""
    return re.sub("`(\\w+)`", lambda name: names[name[1]], text)
