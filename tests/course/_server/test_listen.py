"""Under which names visitors may come."""

import pytest

from finitewidth.course._server.listen import LOOPBACK, is_loopback, listen, names_of


@pytest.mark.parametrize(
    ("host", "yes"),
    [("127.0.0.1", True), ("127.8.9.1", True), ("localhost", True), ("::1", True), ("0.0.0.0", False),
     ("192.168.1.5", False), ("::", False), ("lab.example.org", False)],
)  # fmt: skip
def test_what_only_this_computer_can_reach(host, yes):
    assert is_loopback(host) == yes


def test_a_server_that_others_reach_needs_names():
    assert names_of("127.0.0.1", []) == LOOPBACK
    assert names_of("192.168.1.5", ["lab.example.org"]) == {"192.168.1.5", "lab.example.org"}
    assert names_of("fe80::1", []) == {"[fe80::1]"}
    assert names_of("0.0.0.0", ["192.168.1.5"]) == {"192.168.1.5"}
    with pytest.raises(ValueError, match=r"--host 0\.0\.0\.0 opens the lab to the network: name the hosts"):
        names_of("0.0.0.0", [])
    with pytest.raises(ValueError, match="--allow names hosts for --host"):
        names_of("127.0.0.1", ["lab.example.org"])


def test_a_port_is_taken_once():
    first = listen("127.0.0.1", 0)
    with first, pytest.raises(ValueError, match="is already in use; give another one with --port"):
        listen("127.0.0.1", first.getsockname()[1])


def test_an_address_that_is_not_ours_is_refused():
    with pytest.raises(ValueError, match=r"cannot listen on 203\.0\.113\.7: "):
        listen("203.0.113.7", 0)
