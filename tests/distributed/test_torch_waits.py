"""A collective of torch's is waited for briefly: long enough where the others are there, and not for who is late."""

import numpy as np
import pytest

from xloom.pjrt.executable import Results
from xloom.pjrt.future import Future

torch = pytest.importorskip("torch")
from xloom.torch.lazy.distributed import collectives  # noqa: E402
from xloom.torch.lazy.recording.trace import Value  # noqa: E402
from xloom.torch.lazy.runtime import device_client  # noqa: E402
from xloom.torch.lazy.tensor.array_type import array_type  # noqa: E402


class Late(Future):
    """Of others who do not come."""

    __slots__ = ("waited",)

    def wait(self, timeout=None):
        assert timeout is not None
        self.waited = timeout
        return False


def test_who_is_late_is_not_waited_for(monkeypatch):
    done = Late()

    class Loaded:
        def launch(self, arguments):
            return [Results([arguments[0][0]], done)]

    monkeypatch.setattr(device_client, "throttle", lambda done: None)
    monkeypatch.setattr(collectives.Programs, "_program", lambda self, *case: Loaded())
    value = Value(array_type(torch.float32, (3,)), device_client.on_device(np.ones(3, np.float32)))
    assert collectives.Programs((0, 2048), 0).all_reduce(value, "add").buffer is value.buffer
    assert done.waited == collectives.BRIEF
