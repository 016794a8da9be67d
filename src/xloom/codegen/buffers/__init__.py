"""Buffer assignment: which values share memory, in place and by input-output aliases; and the offsets of the rest."""
