"""The rules of HLO, held against a module."""
