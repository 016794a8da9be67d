"""A custom call that carries its own HLO, before and after the pass that merges it back.

Before, `MyCustomCall` runs as a kernel in Python; after, as the HLO that it carried. The results are equal.
"""

import sys
from pathlib import Path

import numpy as np

import xloom as xl


@xl.custom_call("MyCustomCall")
def my_custom_call(out, a, b):
    first = np.zeros(10, np.float32)
    first[0] = 1
    out[:] = np.sum(a + first, dtype=np.float64).astype(np.float32) * b


def main() -> int:
    module = xl.load(Path(__file__).with_name("my_custom_call.hlo"))
    print(module)
    generator = np.random.default_rng(0)
    x, y = (generator.standard_normal(10).astype(np.float32) for _ in range(2))
    before = xl.evaluate(module, x, y)
    xl.run_passes(module, "expand")
    print(module)
    after = xl.evaluate(module, x, y)
    same = np.allclose(before, after, rtol=1e-6)
    print(f"the expanded program is {'equal to' if same else 'DIFFERENT FROM'} the custom call")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
