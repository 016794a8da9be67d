"""Errors of MPI itself: they end no process, and who cannot be reached keeps nobody from telling the others."""

import subprocess
import sys
from types import SimpleNamespace

import pytest

from xloom.distributed import library, transfers
from xloom.distributed.communicator import Communicator
from xloom.distributed.tags import Tags

ALONE = """
import ctypes
from xloom.distributed import communicator, library

class Store(dict):
    put = dict.__setitem__
    try_get = dict.get
    def get(self, key, timeout): return self[key]

communicator.connect(Store(), 0, 1, 60, 60)
request = ctypes.c_void_p(communicator.REQUEST_NULL)
print("number", library.library().MPI_Test(ctypes.byref(request), None, None))
"""


@pytest.mark.skipif(not library.find().path, reason=library.find().why_not)
def test_an_error_of_no_communicator_is_returned():
    done = subprocess.run([sys.executable, "-c", ALONE], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split("number ")[1]) > 0


def test_who_cannot_be_reached_keeps_nobody_from_telling_the_others(monkeypatch):
    told = []

    def send(data, size, kind, rank, *_):
        told.append(rank.value)
        return int(rank.value == 1)

    monkeypatch.setattr(transfers, "library", lambda: SimpleNamespace(MPI_Isend=send, MPI_Test=lambda *_: 1))
    monkeypatch.setattr(transfers, "error_text", str)
    transfers.Transfers(Communicator(0, (0, 1, 2), 1 << 15), 0, 1.0, Tags(1, 1 << 15)).leave()
    assert told == [1, 2]
