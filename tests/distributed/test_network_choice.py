"""Which network MPI is told to take, and which processes to have on one machine."""

import os

from xloom.distributed.network import Host, choice, chosen, here, mapping


def machines(*names: str) -> list[Host]:
    return [Host(name) for name in names]


def test_mapping():
    assert mapping(machines("a")) == "(vector,(0,1,1))"
    assert mapping(machines("a", "a", "b", "b", "c", "c")) == "(vector,(0,3,2))"
    assert mapping(machines("a", "b", "a", "b")) == "(vector,(0,2,1),(0,2,1))"
    assert mapping(machines("a", "a", "b", "c", "c", "c", "b")) == "(vector,(0,1,2),(1,1,1),(2,1,3),(1,1,1))"


def test_one_machine_is_left_to_mpi():
    assert choice([here(), here()], 0, 9) == {}


def test_a_network_that_mpi_knows_is_left_to_it():
    assert choice([Host("a"), Host("b", (), has_rdma=True)], 0, 9) == {}


def test_several_machines_go_by_tcp():
    found = choice(machines("a", "b"), 1, 9)
    assert (found["MPIR_CVAR_CH4_NETMOD"], found["FI_PROVIDER"]) == ("ofi", "tcp")
    assert "FI_TCP_IFACE" not in found


def test_what_users_say_stays(monkeypatch):
    monkeypatch.setenv("FI_PROVIDER", "psm3")
    with chosen({"FI_PROVIDER": "tcp", "FI_TCP_IFACE": "eth7"}):
        assert (os.environ["FI_PROVIDER"], os.environ["FI_TCP_IFACE"]) == ("psm3", "eth7")
    assert os.environ["FI_PROVIDER"] == "psm3"
    assert "FI_TCP_IFACE" not in os.environ
