"""Random programs about state: loops, branches, memory that is handed on, changed in place, aliased and given away."""
