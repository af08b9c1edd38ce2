"""Clients with revoked certificates: new ones are refused, and those that are connected end."""

import pytest
from structlog.testing import capture_logs

from crdtstream.certificates.certificate import parse_certificates
from crdtstream.core.member_changes import Revoke
from crdtstream.core.membership.members import apply
from crdtstream.core.membership.revoked import serial_bytes
from tests.certificates.making import Made
from tests.membership.world import founded
from tests.resp.node import Node
from tests.resp.tls import Party, TlsClient, is_served


def revoke(node: Node, leaf: Made) -> None:
    """As the folder of the node has it once it was decided."""
    (certificate,) = parse_certificates(leaf.pem)
    seconds = int(certificate.not_after.timestamp())
    change = Revoke(serial_bytes(certificate.serial), seconds, 0)
    node.region.membership.members.known = apply(founded(2), change)


@pytest.mark.parametrize("version", ["1.2", "1.3"])
def test_a_revoked_certificate_is_refused_and_its_clients_are_cut_off(
    party: Party, version: str
) -> None:
    lost, kept = party.issue("lost"), party.issue("kept")
    with party.running(tls_auth_clients="yes") as (node, _):
        contexts = [
            party.context(name, leaf=leaf, version=version)
            for name, leaf in (("lost", lost), ("kept", kept))
        ]
        clients = [TlsClient(node.tls_port, context) for context in contexts]
        for client in clients:
            client.ask(b"PING\r\n", b"+PONG\r\n")
        session = clients[0].tls.session
        node.call(lambda: revoke(node, lost))
        node.call(node.server.end_revoked)
        with pytest.raises(OSError, match="EOF occurred"):
            clients[0].socket.recv(1)
        clients[1].ask(b"PING\r\n", b"+PONG\r\n")

        with capture_logs() as logs:
            # Also one that resumes its session.
            assert not is_served(node.tls_port, contexts[0], session)
            assert not is_served(node.tls_port, contexts[0])
            assert is_served(node.tls_port, contexts[1])
        (certificate,) = parse_certificates(lost.pem)
        reason = f"the client's certificate {certificate.serial:x} of 'lost' was revoked"
        assert [one["reason"] for one in logs] == [reason]
        for client in clients:
            client.socket.close()
