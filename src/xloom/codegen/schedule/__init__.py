"""Thunks in the order in which they run."""
