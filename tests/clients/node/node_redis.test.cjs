// node-redis, from the package "redis".  PORT is the node's, PROTOCOL 2 or 3; over TLS if
// CERTIFICATES is set.
const assert = require("node:assert/strict");
const { after, before, beforeEach, test } = require("node:test");
const { RESP_TYPES, ErrorReply, WatchError, createClient, createClientPool } = require("redis");
const { isSecured, optionsOf } = require("./secured.cjs");

const socket = {
  port: Number(process.env.PORT),
  ...(isSecured && { host: "localhost", tls: true, ...optionsOf("client-app") }),
};
const options = { socket, RESP: Number(process.env.PROTOCOL) };
let r;
let other;

before(async () => {
  r = await createClient(options).connect();
  other = await createClient(options).connect();
});

beforeEach(() => r.flushAll());

after(async () => {
  await r.close();
  await other.close();
});

const idsOf = (entries) => entries.map(({ id }) => id);
const idsIn = (reply) => Object.fromEntries(reply.map(({ name, messages }) => [name, idsOf(messages)]));

async function untilBlocked(count) {
  while (!(await other.info("clients")).includes(`blocked_clients:${count}\r\n`)) {
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
}

test("streams and groups", async () => {
  const ids = [];
  for (let n = 0; n < 4; n++) ids.push(await r.xAdd("s", "*", { n: String(n) }));
  assert.equal(await r.xLen("s"), 4);
  assert.deepEqual(idsOf(await r.xRange("s", "-", "+")), ids);
  assert.deepEqual(idsOf(await r.xRevRange("s", "+", "-", { COUNT: 1 })), [ids[3]]);
  assert.deepEqual(idsIn(await r.xRead({ key: "s", id: ids[1] })), { s: ids.slice(2) });

  assert.equal(await r.xGroupCreate("s", "g", "0"), "OK");
  const got = await r.xReadGroup("g", "alice", { key: "s", id: ">" }, { COUNT: 3 });
  assert.deepEqual(idsIn(got), { s: ids.slice(0, 3) });
  assert.equal(await r.xAck("s", "g", ids[0]), 1);
  assert.deepEqual({ ...(await r.xPending("s", "g")) }, {
    pending: 2,
    firstId: ids[1],
    lastId: ids[2],
    consumers: [{ name: "alice", deliveriesCounter: 2 }],
  });
  const rows = await r.xPendingRange("s", "g", "-", "+", 10);
  assert.deepEqual(idsOf(rows), ids.slice(1, 3));
  assert.deepEqual(idsOf(await r.xClaim("s", "g", "bob", 0, ids[1])), [ids[1]]);
  const claimed = await r.xAutoClaim("s", "g", "carol", 0, "0");
  assert.equal(claimed.nextId, "0-0");
  assert.deepEqual(idsOf(claimed.messages), ids.slice(1, 3));
  assert.deepEqual(claimed.deletedMessages, []);

  const [group] = await r.xInfoGroups("s");
  assert.deepEqual([group.consumers, group.pending, group.lag], [3, 2, 1]);
  const stream = await r.xInfoStream("s");
  assert.deepEqual([stream.length, stream.groups], [4, 1]);
  assert.equal(stream["first-entry"].id, ids[0]);
  const consumers = await r.xInfoConsumers("s", "g");
  assert.deepEqual(consumers.map(({ name, pending }) => [name, pending]), [
    ["alice", 0], ["bob", 0], ["carol", 2],
  ]);
  assert.equal(await r.xDel("s", ids[0]), 1);
  assert.equal(await r.xTrim("s", "MAXLEN", 1), 2);
});

test("keys", async () => {
  for (let n = 0; n < 25; n++) await r.xAdd(`s${n}`, "*", { n: "1" });
  const found = [];
  for await (const keys of r.scanIterator({ COUNT: 4 })) found.push(...keys);
  assert.equal(new Set(found).size, 25);
  assert.equal(await r.type("s1"), "stream");
  assert.equal(await r.del(["s1", "s2", "none"]), 2);
});

test("values of any bytes survive", async () => {
  const value = Buffer.from(Array.from({ length: 256 }, (_, n) => n));
  const binary = r.withTypeMapping({ [RESP_TYPES.BLOB_STRING]: Buffer });
  await binary.sendCommand(["XADD", value, "*", value, value]);
  const [[, fields]] = await binary.sendCommand(["XRANGE", value, "-", "+"]);
  assert.deepEqual(fields, [value, value]);
});

test("another client wakes a blocking read", async () => {
  const reading = r.xRead({ key: "s", id: "$" }, { BLOCK: 10_000 });
  await untilBlocked(1);
  const id = await other.xAdd("s", "*", { a: "1" });
  assert.deepEqual(idsIn(await reading), { s: [id] });
  assert.equal(await r.xRead({ key: "s", id: "$" }, { BLOCK: 10 }), null);
});

test("transactions and pipelines", async () => {
  const [first, length] = await r.multi().xAdd("s", "*", { a: "1" }).xLen("s").exec();
  assert.equal(length, 1);
  const ids = await Promise.all(
    Array.from({ length: 100 }, (_, n) => r.xAdd("s", "*", { n: String(n) })),
  );
  assert.deepEqual(idsOf(await r.xRange("s", "-", "+")), [first, ...ids]);
});

test("a lost watch is an error", async () => {
  const pool = await createClientPool(options).connect();
  try {
    await pool.execute(async (client) => {
      await client.watch("s");
      await other.xAdd("s", "*", { a: "1" });
      await assert.rejects(client.multi().xAdd("s", "*", { a: "2" }).exec(), WatchError);
    });
  } finally {
    await pool.close();
  }
  assert.equal(await r.xLen("s"), 1);
});

test("errors have the client's own type", async () => {
  const error = (pattern) => (thrown) => thrown instanceof ErrorReply && pattern.test(thrown.message);
  await assert.rejects(r.xReadGroup("g", "c", { key: "s", id: ">" }), error(/^NOGROUP /));
  await r.xGroupCreate("s", "g", "0", { MKSTREAM: true });
  await assert.rejects(r.xGroupCreate("s", "g", "0"), error(/^BUSYGROUP /));
  await assert.rejects(r.lPush("k", "v"), error(/^ERR unknown command 'LPUSH'/));
});

test("a killed reader takes nothing with it, and its client connects again", async () => {
  const victim = createClient(options);
  victim.on("error", () => {});
  await victim.connect();
  const id = await victim.clientId();
  await r.xGroupCreate("s", "g", "$", { MKSTREAM: true });
  const reading = victim.xReadGroup("g", "gone", { key: "s", id: ">" }, { BLOCK: 60_000 });
  const rejected = assert.rejects(reading);
  await untilBlocked(1);
  assert.equal(await r.sendCommand(["CLIENT", "KILL", "ID", String(id)]), 1);
  await rejected;
  await untilBlocked(0);
  await r.xAdd("s", "*", { a: "1" });
  assert.equal((await r.xPending("s", "g")).pending, 0);
  assert.equal(await victim.ping(), "PONG");
  await victim.close();
});
