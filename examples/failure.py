"""A custom call that reports a failure: the computation stops, the error says where, and no result is printed."""

import sys

import numpy as np

import xloom as xl
from xloom.calls import register_c

KERNEL = """
#include <xloom/custom_call.h>

void checked_sqrt(void* out, const void** in, XlaCustomCallStatus* status) {
  const float* x = (const float*)in[0];
  for (int i = 0; i < 4; ++i)
    if (x[i] < 0) {
      static const char message[] = "the square root of a negative number was asked for";
      XlaCustomCallStatusSetFailure(status, message, sizeof message - 1);
      return;
    }
}
"""


def main() -> int:
    register_c("checked_sqrt", KERNEL)
    b = xl.Builder("failing")
    x = b.parameter(xl.f32[4])
    b.custom_call("checked_sqrt", [x], xl.f32[4], api_version="API_VERSION_STATUS_RETURNING", name="root")
    module = b.build()
    try:
        result = xl.evaluate(module, np.array([1, 4, -9, 16], np.float32))
    except xl.CustomCallError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
