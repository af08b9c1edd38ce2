"""All commands of ``crdtstream certs``: about files, and about the nodes that use them."""

from crdtstream.cli.certs import app
from crdtstream.cli.certs_reload import reload
from crdtstream.cli.certs_revoke import revoke, revoked

__all__ = ["app"]

app.command()(reload)
app.command()(revoke)
app.command()(revoked)
