"""Operators that the device does its own way: lists, optimisers, attention, shapes that depend on values."""
