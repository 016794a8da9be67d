"""The device among several processes: `torch.distributed` with backend `xla`."""
