"""All planted bugs, by name."""

from typing import Final

from tests.mutations.in_archives import ARCHIVES
from tests.mutations.in_bootstraps import BOOTSTRAPS
from tests.mutations.in_checkpoints import CHECKPOINTS
from tests.mutations.in_cold import COLD_BUGS
from tests.mutations.in_commands import COMMANDS
from tests.mutations.in_core import CORE
from tests.mutations.in_drills import DRILLS
from tests.mutations.in_engine import ENGINE
from tests.mutations.in_expiry import EXPIRIES
from tests.mutations.in_groups import GROUPS
from tests.mutations.in_health import HEALTH
from tests.mutations.in_incarnations import INCARNATIONS
from tests.mutations.in_lag import LAG
from tests.mutations.in_lanes import LANES
from tests.mutations.in_lost import LOST_EFFECTS
from tests.mutations.in_membership import MEMBERSHIP
from tests.mutations.in_merging import MERGING
from tests.mutations.in_metrics import METRICS
from tests.mutations.in_peers import PEERS
from tests.mutations.in_queries import QUERIES
from tests.mutations.in_recovering import RECOVERIES
from tests.mutations.in_replication import REPLICATION
from tests.mutations.in_reports import REPORTS
from tests.mutations.in_retention import RETAINING
from tests.mutations.in_runs import RUNS
from tests.mutations.in_strings import STRING_BUGS
from tests.mutations.in_upkeep import UPKEEP
from tests.mutations.mutation import Mutation

MUTATIONS: Final[tuple[Mutation, ...]] = (
    *CORE,
    *LANES,
    *EXPIRIES,
    *GROUPS,
    *COMMANDS,
    *RUNS,
    *ENGINE,
    *REPLICATION,
    *RECOVERIES,
    *INCARNATIONS,
    *MEMBERSHIP,
    *PEERS,
    *LOST_EFFECTS,
    *QUERIES,
    *REPORTS,
    *DRILLS,
    *HEALTH,
    *METRICS,
    *LAG,
    *STRING_BUGS,
    *RETAINING,
    *CHECKPOINTS,
    *BOOTSTRAPS,
    *MERGING,
    *COLD_BUGS,
    *UPKEEP,
    *ARCHIVES,
)
