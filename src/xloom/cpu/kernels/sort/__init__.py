"""How rows are sorted: what their elements are compared by, what is moved about, and the algorithms."""
