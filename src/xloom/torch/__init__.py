"""PyTorch on xloom: needs the extra `xloom[torch]`. Importing it registers the device `xla`."""

from __future__ import annotations

from xloom.torch.lazy import registration

registration.register()
