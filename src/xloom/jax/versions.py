"""Which version of JAX xloom is made for: it reaches into parts of JAX that change without notice."""

from __future__ import annotations

import xloom
from xloom.errors import UnsupportedError

JAX = (0, 10, 2)


def version_error(cause: BaseException) -> UnsupportedError:
    """The error for a JAX that lacks what xloom needs of it, which is `cause`; it says which of the two must change."""
    import jax

    found = tuple(jax.__version_info__)
    wanted = ".".join(map(str, JAX))
    if found < JAX:
        hint = f"update JAX: pip install jax=={wanted}"
    elif found > JAX:
        hint = f"update xloom, or go back to the version of JAX that this one is made for: pip install jax=={wanted}"
    else:
        hint = f"install JAX again, it is not complete: pip install --force-reinstall jax=={wanted}"
    return UnsupportedError(
        f"xloom {xloom.__version__} is made for JAX {wanted}, and this is JAX {jax.__version__}: {cause}", hint=hint
    )
