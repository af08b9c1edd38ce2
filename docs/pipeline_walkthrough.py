"""The walk-through of docs/pipeline.md as a program: `make up`, then

    .venv/bin/python docs/pipeline_walkthrough.py

Cells begin with `# %%`, as notebooks and editors know them. Regions elsewhere:
CRDTSTREAM_NODES=host:7381,host:7382 CRDTSTREAM_REDIS=host:6381,host:6382. It begins with empty
streams `readings`, `hot` and `copy-readings`, and leaves them filled.
"""

# %% A session
import os
import tempfile

from crdtstream.spark.session import make_session

NODES = os.environ.get("CRDTSTREAM_NODES", "127.0.0.1:7381,127.0.0.1:7382,127.0.0.1:7383")
spark = make_session("walk-through")

# %% Something to read, written in three regions
import redis

addresses = os.environ.get("CRDTSTREAM_REDIS", "127.0.0.1:6381,127.0.0.1:6382,127.0.0.1:6383")
regions = [redis.Redis.from_url(f"redis://{address}") for address in addresses.split(",")]
for number, region in enumerate(regions, start=1):
    pipeline = region.pipeline(transaction=False)
    for n in range(1000):
        reading = {"sensor": f"s{n % 3}", "celsius": f"{10 + 5 * number + n % 10 / 10:.1f}"}
        pipeline.xadd("readings", reading)
    pipeline.execute()
    print(f"region {number}: {region.wait(2, 10_000)} other regions have it")

# %% Read it
readings = (
    spark.read.format("crdtstream").option("nodes", NODES).option("streams", "readings").load()
)
readings.printSchema()
readings.groupBy("origin").count().orderBy("origin").show()

# %% Fields as columns
from pyspark.sql.functions import col, current_timestamp, expr

columns = "origin int, timestamp timestamp, sensor string, celsius double"
typed = (
    spark.read.format("crdtstream")
    .schema(columns)
    .option("nodes", NODES)
    .option("streams", "readings")
    .load()
)
means = typed.groupBy("sensor").agg(expr("count(*) AS n"), expr("round(avg(celsius), 2) AS mean"))
means.orderBy("sensor").show()

# %% Only what is needed is read: these filters are the regions' work
recent = col("timestamp") > current_timestamp() - expr("INTERVAL 1 HOUR")
print(typed.where((col("origin") == 2) & recent).count())

# %% A query that continues where it was
folder = tempfile.mkdtemp(prefix="walk-through-")


def count_new() -> None:
    """Read what was not read yet, and add it to the table `seen`."""
    stream = (
        spark.readStream.format("crdtstream")
        .option("nodes", NODES)
        .option("streams", "readings")
        .option("maxEntriesPerTrigger", 2000)
        .load()
    )
    query = (
        stream.groupBy("origin")
        .count()
        .writeStream.format("memory")
        .queryName("seen")
        .outputMode("complete")
        .option("checkpointLocation", f"{folder}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    spark.table("seen").orderBy("origin").show()


count_new()

# %% An entry that arrives late, with a low ID, is read too
from crdtstream.admin.client import AdminClient


def pull_from_region_2(*, paused: bool) -> None:
    """Stop the links by which regions 1 and 3 pull from region 2, or start them again."""
    for address in (NODES.split(",")[0], NODES.split(",")[2]):
        with AdminClient(address) as node:
            node.set_links([2], paused=paused)


pull_from_region_2(paused=True)
late = regions[1].xadd("readings", {"sensor": "s0", "celsius": "20.0"})
soon = regions[0].xadd("readings", {"sensor": "s0", "celsius": "15.0"})
regions[0].wait(2, 10_000)
count_new()
pull_from_region_2(paused=False)
regions[1].wait(2, 10_000)
print("the late one has the lower ID:", late < soon)
count_new()

# %% Write rows to a stream once, with any number of retries
hot = typed.where("celsius > 24.5").select("sensor", "celsius")


def write_hot() -> None:
    hot.write.format("crdtstream").mode("append").option("nodes", NODES).option(
        "stream", "hot"
    ).option("writeId", "hot-readings").option("rowOrder", "sorted").save()


write_hot()
write_hot()
print(regions[0].xlen("hot"))

# %% Archive to Parquet; a second run adds what is new
from crdtstream.spark.jobs.archive import ArchiveOptions, archive
from crdtstream.spark.options import SourceOptions

nodes = SourceOptions.parse({"nodes": NODES}).nodes
to_archive = ArchiveOptions(nodes, path=f"{folder}/archive", streams=(b"readings",))
first, second = archive(spark, to_archive), archive(spark, to_archive)
print(first.entries, second.entries, second.entries_total)

# %% Any program reads the archive
spark.read.parquet(f"{folder}/archive").groupBy("origin").count().orderBy("origin").show()

# %% Write the archive to streams again
from crdtstream.spark.jobs.replay import ReplayOptions, replay

to_replay = ReplayOptions(nodes, path=f"{folder}/archive", prefix=b"copy-", id_field="was")
first, second = replay(spark, to_replay), replay(spark, to_replay)
print(first.entries, second.entries, regions[0].xlen("copy-readings"))

# %% Prove that the regions agree
from crdtstream.spark.jobs.audit import AuditOptions, audit

outcome = audit(spark, AuditOptions(nodes, output=f"{folder}/audit"))
print(outcome.clean, outcome.regions, outcome.streams, outcome.entries)

# %% A page about streams and regions
from crdtstream.spark.jobs.report import ReportOptions, StreamField, report

outcome = report(
    spark,
    ReportOptions(
        nodes,
        output=f"{folder}/report",
        streams=(b"readings",),
        fields=(StreamField.parse("celsius"),),
        sample_seconds=1,
    ),
)
print(outcome.entries, outcome.dead_letters, outcome.page.endswith(".html"))
