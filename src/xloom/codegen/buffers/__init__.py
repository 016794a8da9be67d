"""Buffer assignment: which values share memory, in place, by input-output aliases, and at which offsets."""
