"""Sliding windows: their geometry, and how they are reduced."""
