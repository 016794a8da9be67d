"""How processes that no launcher has started find each other: each answers its own MPI.

MPICH asks whoever has started it by PMI-1, a protocol of lines over a socket, whose number is in the environment: for
its rank, for what other processes have put, and for barriers. Here a thread of the process answers out of a key-value
store that the processes have in common.
"""

from __future__ import annotations

import os
import secrets
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from xloom.distributed.key_value_store import KeyValueStore
from xloom.process_identity import log_prefix

LAUNCHERS = ("PMI_FD", "PMI_PORT", "PMI_RANK", "PMIX_RANK", "PMIX_NAMESPACE", "OMPI_COMM_WORLD_RANK")
"""Variables that say that a launcher has started the process, and answers its MPI."""
_VARIABLES = ("PMI_FD", "PMI_RANK", "PMI_SIZE")
_MAXES = "kvsname_max=256 keylen_max=256 vallen_max=1024"
_MAPPING = "PMI_process_mapping"
"""What MPI asks of a launcher that knows where it has started the processes."""


def has_launcher() -> bool:
    """Whether MPI has somebody to ask."""
    return any(name in os.environ for name in LAUNCHERS)


class Server:
    """Answers the MPI of this process."""

    def __init__(self, store: KeyValueStore, rank: int, mapping: str, size: int, timeout: float):
        """`mapping` says which processes are on one machine; see `xloom.distributed.network`."""
        self._store, self._rank, self._size, self._timeout = store, rank, size, timeout
        self._mapping = mapping
        self._barriers = 0
        if not rank:
            store.put("pmi-name", f"xloom{secrets.token_hex(6)}")
        self._name = store.get("pmi-name", timeout)
        """MPI names memory after it that the processes of a machine share: it must be new."""

    def answer(self, line: str) -> str:
        """What is said to one line."""
        words = dict(word.split("=", 1) for word in line.split() if "=" in word)
        command = words.get("cmd", "")
        if command == "init":
            return "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0"
        if command == "get_maxes":
            return f"cmd=maxes rc=0 {_MAXES}"
        if command == "get_appnum":
            return "cmd=appnum rc=0 appnum=0"
        if command == "get_my_kvsname":
            return f"cmd=my_kvsname rc=0 kvsname={self._name}"
        if command == "get_universe_size":
            return f"cmd=universe_size rc=0 size={self._size}"
        if command == "put":
            self._store.put(f"pmi/{words['key']}", words.get("value", ""))
            return "cmd=put_result rc=0 msg=success"
        if command == "get":
            key = words["key"]
            value = self._mapping if key == _MAPPING else self._store.try_get(f"pmi/{key}")
            found = f"rc=0 msg=success value={value}" if value is not None else "rc=-1 msg=key_not_found value=unknown"
            return f"cmd=get_result {found}"
        if command == "barrier_in":
            self._meet()
            return "cmd=barrier_out rc=0"
        if command == "finalize":
            return "cmd=finalize_ack rc=0"
        return f"cmd={command} rc=-1 msg=unknown"

    def _meet(self) -> None:
        """Waits for all processes: the first counts the others, and tells them."""
        key, self._barriers = f"pmi-barrier/{self._barriers}", self._barriers + 1
        if self._rank:
            self._store.put(f"{key}/{self._rank}", "here")
            self._store.get(f"{key}/all", self._timeout)
            return
        for other in range(1, self._size):
            self._store.get(f"{key}/{other}", self._timeout)
        self._store.put(f"{key}/all", "here")

    def serve(self, connection: socket.socket) -> None:
        """Answers until the other end is closed."""
        with connection, connection.makefile("rwb", buffering=0) as lines:
            for line in lines:
                try:
                    answer = self.answer(line.decode().rstrip("\n"))
                except Exception as error:  # the store's: MPI must not wait for an answer
                    # it may end the process, by an assertion that says nothing of this
                    print(f"{log_prefix()}xloom.distributed: MPI cannot begin: {error}", file=sys.stderr, flush=True)
                    answer = "cmd=failed rc=-1 msg=failed"
                lines.write((answer + "\n").encode())


@contextmanager
def answering(store: KeyValueStore, rank: int, mapping: str, size: int, timeout: float) -> Iterator[Server]:
    """The environment of a process whose MPI begins in the `with`; its requests are answered as long as it lives."""
    ours, theirs = socket.socketpair()
    server = Server(store, rank, mapping, size, timeout)
    threading.Thread(target=server.serve, args=(ours,), name="xloom PMI", daemon=True).start()
    values = (str(theirs.detach()), str(rank), str(size))
    os.environ.update(zip(_VARIABLES, values, strict=True))
    try:
        yield server
    finally:
        for name in _VARIABLES:  # processes that this one starts are none of MPI's
            os.environ.pop(name, None)
