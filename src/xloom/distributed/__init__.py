"""Several processes: what their devices exchange goes through MPI, as bytes.

library.py          which MPI there is
pmi.py              how processes that no launcher has started find each other
network.py          by which network MPI reaches other machines
control_variable.py what it is told once it has begun
communicator.py     MPI, begun by all processes
topology.py         which devices the processes have
tags.py             how messages are told apart
plan.py             who sends what to whom in a collective
exchange_ir.py      native code that does so, and ends by a deadline; its parts:
  posting_ir.py     what begins to send and to receive
  waiting_ir.py     what waits
  failures_ir.py    what tells of failures, and notices them
  staging_ir.py     where it arrives
  mpi_ir.py, struct_ir.py   what they all name
transfers.py        arrays that go from a process to another besides programs
turns_ir.py         native code that lets runs follow each other
run.py              one run of a program, and what went wrong in it
waits.py            how long processes waited, for traces
key_value_store.py  what processes tell each other before MPI is there
"""
