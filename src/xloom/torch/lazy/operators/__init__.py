"""Operators that the device implements itself: lists, optimisers, attention, shapes that depend on values."""
