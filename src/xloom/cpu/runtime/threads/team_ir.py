"""LLVM IR that runs a program with the threads of an OpenMP team as workers.

After each parallel region such threads wait for the next one without sleeping, for milliseconds: they would have the
processors that the pool's own workers need.
"""

from __future__ import annotations

RUN_IN_TEAM = "xloom_run_in_team"
"""`int32_t xloom_run_in_team(GOMP_parallel, omp_get_thread_num, uint32_t threads, main, the first four arguments)`."""


_GIVEN = ("number.of", "main", "arguments", "results", "constants", "arena")
"""What the threads of a team are given: the function that numbers them, the program and its arguments."""


def team_ir(threads: int) -> str:
    """`RUN_IN_TEAM` for a pool of so many threads. Needs `@stand_in` of the pool."""
    places = [f"  %{name}.at = getelementptr ptr, ptr %team, i64 {k}" for k, name in enumerate(_GIVEN)]
    give = "\n".join(f"{at}\n  store ptr %{name}, ptr %{name}.at" for at, name in zip(places, _GIVEN, strict=True))
    take = "\n".join(f"{at}\n  %{name} = load ptr, ptr %{name}.at" for at, name in zip(places, _GIVEN, strict=True))
    return f"""
; what it is given, what the program returns, and whether it is over, in a line alone
%Team = type {{ [{len(_GIVEN)} x ptr], i32, [128 x i8], i32, [128 x i8] }}

define i32 @{RUN_IN_TEAM}(ptr %parallel, ptr %number.of, i32 %threads, ptr %main, ptr %arguments, ptr %results,
    ptr %constants, ptr %arena) {{
  %team = alloca %Team, align 128
{give}
  %over = getelementptr %Team, ptr %team, i64 0, i32 3
  store i32 0, ptr %over
  call void %parallel(ptr @member, ptr %team, i32 %threads, i32 0)
  %returned.at = getelementptr %Team, ptr %team, i64 0, i32 1
  %returned = load i32, ptr %returned.at
  ret i32 %returned
}}

; What each thread of a team does: the one that began it runs the program.
define internal void @member(ptr %team) {{
{take}
  %over = getelementptr %Team, ptr %team, i64 0, i32 3
  %number = call i32 %number.of()
  %is.first = icmp eq i32 %number, 0
  br i1 %is.first, label %run, label %other
run:
  %returned = call i32 %main(ptr %arguments, ptr %results, ptr %constants, ptr %arena, ptr null)
  %returned.at = getelementptr %Team, ptr %team, i64 0, i32 1
  store i32 %returned, ptr %returned.at
  store atomic i32 1, ptr %over release, align 4
  ret void
other:
  %index = zext i32 %number to i64
  %is.worker = icmp ult i64 %index, {threads}
  br i1 %is.worker, label %serve, label %leave
serve:
  call void @stand_in(i64 %index, ptr %over)
  br label %leave
leave:
  ret void
}}
"""
