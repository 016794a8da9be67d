"""One version of xloom in `benchmarks.regression`: it imports nothing but that version, and NumPy.

Lines of JSON come in, one comes out for each: `{"program": FILE, "arguments": FILE}` compiles a program,
`{"calls": N}` runs it so often and gives the seconds of a call.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import xloom as xl


def main() -> None:
    """Until standard input ends."""
    run: Any = None
    for line in sys.stdin:
        asked = json.loads(line)
        start = time.perf_counter()
        try:
            if "program" in asked:
                with np.load(asked["arguments"], allow_pickle=False) as file:
                    arguments = [file[f"arr_{k}"].view(d) for k, d in enumerate(asked["dtypes"])]
                compiled = xl.compile(xl.from_stablehlo(Path(asked["program"]).read_bytes()))

                def run(compiled: Any = compiled, arguments: Any = arguments) -> Any:
                    return compiled(*arguments)

                run()
                answer = {"seconds": time.perf_counter() - start, "source": str(Path(xl.__file__).parent)}
            else:
                run()  # caches hold what the other one left
                start = time.perf_counter()
                for _ in range(asked["calls"]):
                    run()
                answer = {"seconds": (time.perf_counter() - start) / asked["calls"]}
        except Exception as error:  # whatever a version cannot do is its result
            answer = {"error": f"{type(error).__name__}: {error}"[:500]}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
