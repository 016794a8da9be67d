"""PyTorch on xloom: needs the extra `xloom[torch]`."""
