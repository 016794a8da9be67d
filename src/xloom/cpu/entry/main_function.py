"""The function that a program is, as who calls it knows it."""

MAIN = "xloom_main"
"""Its name."""
BROKEN = -2
"""What it returns when another device will never come."""
INTERRUPTED = -3
"""What it returns when it was to end early."""
