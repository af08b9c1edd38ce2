"""All commands of ``crdtstream crdb``: about members, and about what the regions have."""

from crdtstream.cli.crdb import app
from crdtstream.cli.crdb_purge import purge_instance
from crdtstream.cli.crdb_salvage import salvage
from crdtstream.cli.crdb_verify import verify

__all__ = ["app"]

app.command()(salvage)
app.command()(purge_instance)
app.command()(verify)
