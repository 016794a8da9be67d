"""From an operator's dispatch to a program: what is recorded, compiled, known again, and forgotten."""
