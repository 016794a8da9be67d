"""The method log."""

import os
import re
import subprocess
import sys
from pathlib import Path

GOLDEN = Path(__file__).parent.parent / "golden" / "pjrt_log.txt"
PROGRAM = """
import jax, jax.numpy as jnp
y = jax.jit(lambda x: jnp.power(x, jnp.int32(2)))(1)
print(y)
"""


def run(program: str) -> str:
    environment = {**os.environ, "JAX_PLATFORMS": "xloom", "XLOOM_LOG": "pjrt"}
    environment.pop("XLOOM_NUM_DEVICES", None)
    command = [sys.executable, "-u", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    return f"{done.stderr}# standard output\n{done.stdout}"


def test_the_log_of_a_first_program(request):
    text = re.sub(r"(fingerprint)='\w+'", r"\1='...'", run(PROGRAM))
    if request.config.getoption("--bless"):
        GOLDEN.write_text(text)
    golden = GOLDEN.read_text()
    # some of JAX's questions come from threads of its own, one of which may hold the executable when the process ends
    late = "PJRT_LoadedExecutable_Destroy", "PJRT_Executable_Destroy"
    logged, expected = (
        sorted(line for line in each.splitlines() if not line.startswith(late)) for each in (text, golden)
    )
    assert logged == expected, "run `pytest --bless`, and look at the difference"
    milestones = ["PJRT_Client_Create", "PJRT_Client_Compile", "  Client#0.compile", "PJRT_LoadedExecutable_Execute"]
    places = [text.index(f"\n{name}(") for name in milestones]
    assert places == sorted(places)


def test_errors_are_told():
    text = run(
        "import jax\n"
        "try: jax.jit(lambda x: x + 1, compiler_options={'nonsense': True})(1)\n"
        "except Exception as error: print(error)\n"
    )
    assert re.search(r"^ +-> PJRT_Error\(.*nonsense|PJRT_Client_Compile\(.*-> PJRT_Error\(.*nonsense", text, re.M), text
