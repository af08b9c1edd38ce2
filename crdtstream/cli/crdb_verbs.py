"""All commands of ``crdtstream crdb``: about members, and about what the regions have."""

from crdtstream.cli.crdb import app
from crdtstream.cli.crdb_acl import app as acl_app
from crdtstream.cli.crdb_flush import flush
from crdtstream.cli.crdb_purge import purge_instance
from crdtstream.cli.crdb_repair import repair
from crdtstream.cli.crdb_salvage import salvage
from crdtstream.cli.crdb_verify import verify

__all__ = ["app"]

app.add_typer(acl_app, name="acl")
app.command()(flush)
app.command()(salvage)
app.command()(purge_instance)
app.command()(verify)
app.command()(repair)
