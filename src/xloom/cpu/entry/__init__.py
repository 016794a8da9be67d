"""The entry function of a program: thunks called in order, control flow, collectives, and memory."""
