"""torch_xla's interface over this device."""
