"""Runs that signals end, and what the process does afterwards; prints a line for each."""

import os
import signal
import threading

import numpy as np

import xloom as xl
from xloom.pjrt import Client

LOOP = """HloModule m
halve {{
  x = f32[8] parameter(0)
  h = f32[8] constant({{.5, .5, .5, .5, .5, .5, .5, .5}})
  ROOT m = f32[8] multiply(x, h)
}}
on {{
  s = (s64[], {state}) parameter(0)
  i = s64[] get-tuple-element(s), index=0
  n = s64[] constant({{n}})
  ROOT l = pred[] compare(i, n), direction={direction}
}}
body {{
  s = (s64[], {state}) parameter(0)
  i = s64[] get-tuple-element(s), index=0
  x = {state} get-tuple-element(s), index=1
  one = s64[] constant(1)
  j = s64[] add(i, one)
  y = {state} {step}
  ROOT t = (s64[], {state}) tuple(j, y)
}}
ENTRY e {{
  a = {state} parameter(0)
  z = s64[] constant(0)
  t = (s64[], {state}) tuple(z, a)
  w = (s64[], {state}) while(t), condition=on, body=body
  ROOT r = {state} get-tuple-element(w), index=1
}}"""
DIMENSIONS = ", lhs_contracting_dims={1}, rhs_contracting_dims={0}"
DOT = f"f32[640,640] dot(x, x){DIMENSIONS}"
CALL = 'custom-call(x), custom_call_target="halved", api_version=API_VERSION_ORIGINAL'


@xl.custom_call("halved")
def halved(out, x):
    out[...] = x / 2


def loop(step, state="f32[8]", direction="LT"):
    return LOOP.format(step=step, state=state, direction=direction)


def chain(count, n):
    lines = [
        f"x{k + 1} = f32[{n},{n}] dot(x{k}, x{k}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}"
        for k in range(count)
    ]
    lines[-1] = f"ROOT {lines[-1]}"
    return f"HloModule m\nENTRY e {{\n  x0 = f32[{n},{n}] parameter(0)\n  " + "\n  ".join(lines) + "\n}"


STORED = "  c = f32[1] constant({{.5}})\n  y = f32[8] dynamic-update-slice(x, c, i)"
BLOCKS = (
    loop("sine(x)")
    .replace("  y = f32[8] sine(x)", STORED.format())
    .replace("body=body", 'body=body, frontend_attributes={xloom.blocks="true"}')
)


class Stopped(BaseException):  # no failure of a call that is interrupted
    pass


def stop(*_):
    raise Stopped


def main():
    signal.signal(signal.SIGINT, signal.default_int_handler)  # which shells have their background jobs ignore
    signal.signal(signal.SIGALRM, stop)
    vector, matrix = np.linspace(0, 1, 8, dtype=np.float32), np.eye(640, dtype=np.float32)
    programs = {
        "a count": (loop("sine(x)"), vector),
        "no count": (loop("sine(x)", direction="NE"), vector),
        "threads": (loop("dot(x, x)" + DIMENSIONS, "f32[640,640]"), matrix),
        "Python": (loop(CALL), vector),
        "both": (
            loop(CALL, "f32[640,640]").replace("x), cus", "d), cus").replace("  y =", f"  d = {DOT}\n  y ="),
            matrix,
        ),
        "steps": (chain(3000, 640), matrix),
        "blocks": (BLOCKS, vector),
    }
    for name, (text, argument) in programs.items():
        short, long = (xl.compile(xl.parse(text.replace("{n}", n))) for n in ("3", "4000000000000000000"))
        expected = short(argument) if name != "steps" else None
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        try:
            long(argument)
            print(name, "went on")
        except Stopped:
            print(name, "stopped", expected is None or np.array_equal(short(argument), expected))

    long = xl.compile(xl.parse(loop("sine(x)").replace("{n}", "4000000000000000000")))
    on_kernel = []
    signal.signal(signal.SIGUSR1, lambda *_: on_kernel.append(True))
    threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGUSR1)).start()
    threading.Timer(0.6, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        long(vector)
    except KeyboardInterrupt:
        print("SIGINT after a handler that returns", on_kernel)

    client = Client.cpu()
    program = client.compile(xl.parse(loop("sine(x)").replace("{n}", "4000000000000000000")))
    (result,) = program.execute([client.buffer_from_host(vector)])
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    try:
        result.block_until_ready()
    except Stopped:
        print("wait stopped")


main()
