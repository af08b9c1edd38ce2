// ioredis.  PORT is the node's, PACKAGE the name that this version of it is installed by; over TLS
// if CERTIFICATES is set.
const assert = require("node:assert/strict");
const { after, before, beforeEach, test } = require("node:test");
const Redis = require(process.env.PACKAGE);
const { isSecured, optionsOf } = require("./secured.cjs");

const options = {
  port: Number(process.env.PORT),
  ...(isSecured && { host: "localhost", tls: optionsOf("client-app") }),
};
let r;
let other;

before(() => {
  r = new Redis(options);
  other = new Redis(options);
});

beforeEach(() => r.flushall());

after(async () => {
  assert.equal(await r.quit(), "OK");
  assert.equal(await other.quit(), "OK");
});

const idsOf = (entries) => entries.map(([id]) => id);

// Pairs, flat in RESP2, as an object.
function record(pairs) {
  const found = {};
  for (let at = 0; at < pairs.length; at += 2) found[pairs[at]] = pairs[at + 1];
  return found;
}

async function untilBlocked(count) {
  while (!(await other.info("clients")).includes(`blocked_clients:${count}\r\n`)) {
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
}

test("streams and groups", async () => {
  const ids = [];
  for (let n = 0; n < 4; n++) ids.push(await r.xadd("s", "*", "n", n));
  assert.equal(await r.xlen("s"), 4);
  assert.deepEqual(await r.xrange("s", "-", "+", "COUNT", 1), [[ids[0], ["n", "0"]]]);
  assert.deepEqual(idsOf(await r.xrevrange("s", "+", "-")), [...ids].reverse());
  const [[key, entries]] = await r.xread("STREAMS", "s", ids[1]);
  assert.deepEqual([key, idsOf(entries)], ["s", ids.slice(2)]);

  assert.equal(await r.xgroup("CREATE", "s", "g", "0"), "OK");
  const [[, got]] = await r.xreadgroup("GROUP", "g", "alice", "COUNT", 3, "STREAMS", "s", ">");
  assert.deepEqual(idsOf(got), ids.slice(0, 3));
  assert.equal(await r.xack("s", "g", ids[0]), 1);
  assert.deepEqual(await r.xpending("s", "g"), [2, ids[1], ids[2], [["alice", "2"]]]);
  assert.deepEqual(idsOf(await r.xpending("s", "g", "-", "+", 10)), ids.slice(1, 3));
  assert.deepEqual(idsOf(await r.xclaim("s", "g", "bob", 0, ids[1])), [ids[1]]);
  const [cursor, claimed, deleted] = await r.xautoclaim("s", "g", "carol", 0, "0");
  assert.deepEqual([cursor, idsOf(claimed), deleted], ["0-0", ids.slice(1, 3), []]);

  const [group] = (await r.xinfo("GROUPS", "s")).map(record);
  assert.deepEqual([group.consumers, group.pending, group.lag], [3, 2, 1]);
  const full = record(await r.xinfo("STREAM", "s", "FULL"));
  assert.deepEqual(idsOf(full.entries), ids);
  assert.equal(record(full.groups[0])["pel-count"], 2);
  assert.equal(await r.xdel("s", ids[0]), 1);
  assert.equal(await r.xtrim("s", "MAXLEN", 1), 2);
});

test("keys", async () => {
  for (let n = 0; n < 25; n++) await r.xadd(`s${n}`, "*", "n", n);
  const found = new Set();
  for await (const keys of r.scanStream({ count: 4 })) keys.forEach((key) => found.add(key));
  assert.equal(found.size, 25);
  assert.equal(await r.type("s1"), "stream");
  assert.equal(await r.del("s1", "s2", "none"), 2);
});

test("values of any bytes survive", async () => {
  const value = Buffer.from(Array.from({ length: 256 }, (_, n) => n));
  const id = await r.xaddBuffer(value, "*", value, value);
  assert.deepEqual(await r.xrangeBuffer(value, "-", "+"), [[id, [value, value]]]);
});

test("another client wakes a blocking read", async () => {
  const reading = r.xread("BLOCK", 10_000, "STREAMS", "s", "$");
  await untilBlocked(1);
  const id = await other.xadd("s", "*", "a", "1");
  assert.deepEqual(await reading, [["s", [[id, ["a", "1"]]]]]);
  assert.equal(await r.xread("BLOCK", 10, "STREAMS", "s", "$"), null);
});

test("transactions and pipelines", async () => {
  const [[, first], [, length]] = await r.multi().xadd("s", "*", "a", "1").xlen("s").exec();
  assert.equal(length, 1);
  const pipeline = r.pipeline();
  for (let n = 0; n < 100; n++) pipeline.xadd("s", "*", "n", n);
  const [error] = (await pipeline.lpush("k", "v").exec()).pop();
  assert.match(error.message, /^ERR unknown command 'lpush'/);
  const ids = idsOf(await r.xrange("s", "-", "+"));
  assert.equal(ids[0], first);
  assert.equal(ids.length, 101);
});

test("commands sent at once become a pipeline", async () => {
  const automatic = new Redis({ ...options, enableAutoPipelining: true });
  const ids = await Promise.all(
    Array.from({ length: 100 }, (_, n) => automatic.xadd("s", "*", "n", n)),
  );
  assert.deepEqual(idsOf(await r.xrange("s", "-", "+")), ids);
  await automatic.quit();
});

test("a lost watch is no result", async () => {
  await r.watch("s");
  await other.xadd("s", "*", "a", "1");
  assert.equal(await r.multi().xadd("s", "*", "a", "2").exec(), null);
  assert.equal(await r.xlen("s"), 1);
});

test("errors have the client's own type", async () => {
  const error = (pattern) => (thrown) =>
    thrown instanceof Redis.ReplyError && pattern.test(thrown.message);
  const reading = () => r.xreadgroup("GROUP", "g", "c", "STREAMS", "s", ">");
  await assert.rejects(reading, error(/^NOGROUP /));
  await r.xgroup("CREATE", "s", "g", "0", "MKSTREAM");
  await assert.rejects(() => r.xgroup("CREATE", "s", "g", "0"), error(/^BUSYGROUP /));
  await assert.rejects(() => r.lpush("k", "v"), error(/^ERR unknown command 'lpush'/));
});

test("a killed reader asks again on a new connection", async () => {
  const victim = new Redis(options);
  const id = await victim.client("ID");
  const reading = victim.xread("BLOCK", 60_000, "STREAMS", "s", "$");
  await untilBlocked(1);
  assert.equal(await r.client("KILL", "ID", id), 1);
  // By itself ioredis connects again and sends once more what had no reply.
  const isAnother = (line) => / cmd=xread /.test(line) && !line.startsWith(`id=${id} `);
  while (!(await r.client("LIST")).split("\n").some(isAnother)) {
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
  const added = await r.xadd("s", "*", "a", "1");
  assert.deepEqual(await reading, [["s", [[added, ["a", "1"]]]]]);
  await victim.quit();
});

test("a blocked group reader that is gone takes nothing with it", async () => {
  const victim = new Redis(options);
  await r.xgroup("CREATE", "s", "g", "$", "MKSTREAM");
  const reading = victim.xreadgroup("GROUP", "g", "gone", "BLOCK", 0, "STREAMS", "s", ">");
  const rejected = assert.rejects(reading);
  await untilBlocked(1);
  victim.disconnect();
  await rejected;
  await untilBlocked(0);
  await r.xadd("s", "*", "a", "1");
  assert.equal((await r.xpending("s", "g"))[0], 0);
});
