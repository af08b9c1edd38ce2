"""All planted bugs: those of a line each (``edits.py``), and those that take more, as texts."""

from typing import Final

from tests.mutations.edits import edits
from tests.mutations.in_access import ACCESS
from tests.mutations.in_acl import ACL
from tests.mutations.in_bootstraps import BOOTSTRAPS
from tests.mutations.in_certificates import CERTIFICATES
from tests.mutations.in_checkpoints import CHECKPOINTS
from tests.mutations.in_closed import CLOSED
from tests.mutations.in_cold import COLD_BUGS
from tests.mutations.in_commands import COMMANDS
from tests.mutations.in_console import CONSOLE
from tests.mutations.in_core import CORE
from tests.mutations.in_engine import ENGINE
from tests.mutations.in_fuzz import BORDERS
from tests.mutations.in_groups import GROUPS
from tests.mutations.in_health import HEALTH
from tests.mutations.in_histories import HISTORIES
from tests.mutations.in_incarnations import INCARNATIONS
from tests.mutations.in_lag import LAG
from tests.mutations.in_lanes import LANES
from tests.mutations.in_limits import LIMITS
from tests.mutations.in_membership import MEMBERSHIP
from tests.mutations.in_merging import MERGING
from tests.mutations.in_metrics import METRICS
from tests.mutations.in_moves import OF_MOVES
from tests.mutations.in_notifications import NOTIFICATIONS
from tests.mutations.in_packages import PACKAGES
from tests.mutations.in_peers import PEERS
from tests.mutations.in_recovering import RECOVERIES
from tests.mutations.in_removals import REMOVALS
from tests.mutations.in_replay import REPLAY
from tests.mutations.in_replication import REPLICATION
from tests.mutations.in_reports import REPORTS
from tests.mutations.in_retention import RETAINING
from tests.mutations.in_revoked import REVOKED
from tests.mutations.in_runs import RUNS
from tests.mutations.in_strings import STRING_BUGS
from tests.mutations.in_tls import TLS
from tests.mutations.in_vectors import NAMED_VECTORS
from tests.mutations.mutation import Mutation

MUTATIONS: Final[tuple[Mutation, ...]] = (
    *CORE,
    *LANES,
    *GROUPS,
    *COMMANDS,
    *RUNS,
    *ENGINE,
    *REPLICATION,
    *RECOVERIES,
    *HISTORIES,
    *INCARNATIONS,
    *MEMBERSHIP,
    *PEERS,
    *NAMED_VECTORS,
    *REPORTS,
    *HEALTH,
    *METRICS,
    *OF_MOVES,
    *LAG,
    *STRING_BUGS,
    *NOTIFICATIONS,
    *RETAINING,
    *CHECKPOINTS,
    *BOOTSTRAPS,
    *MERGING,
    *COLD_BUGS,
    *REMOVALS,
    *CERTIFICATES,
    *REVOKED,
    *TLS,
    *ACCESS,
    *ACL,
    *CLOSED,
    *PACKAGES,
    *LIMITS,
    *CONSOLE,
    *REPLAY,
    *BORDERS,
    *edits(),
)
