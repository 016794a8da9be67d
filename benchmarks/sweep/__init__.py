"""The breadth of JAX's API: a few thousand small programs, an operation, a type and a shape each, against XLA:CPU."""
