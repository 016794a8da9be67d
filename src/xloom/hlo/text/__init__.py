"""HLO text: parsed as XLA's own parser does, printed as XLA prints it."""
