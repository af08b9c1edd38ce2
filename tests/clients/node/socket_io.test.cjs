// socket.io over two regions, by its adapter for streams.  PORTS are the nodes' of the two regions.
const assert = require("node:assert/strict");
const { createServer } = require("node:http");
const { after, before, test } = require("node:test");
const { createAdapter } = require("@socket.io/redis-streams-adapter");
const { createClient } = require("redis");
const { Server } = require("socket.io");
const { io: connect } = require("socket.io-client");

const EACH = 500;
const PATIENCE_MS = 30_000;
// A session is kept for longer than any test takes.
const RECOVERY_MS = 600_000;
const ports = process.env.PORTS.split(",").map(Number);
let sides;

// Until it holds; in time, or the test fails.
async function until(holds, what) {
  const deadline = Date.now() + PATIENCE_MS;
  while (!(await holds())) {
    assert.ok(Date.now() < deadline, `never: ${what()}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

// A server of socket.io at one region's node, and a client of it who counts what he is told.
async function side(port) {
  const redis = await createClient({ socket: { port } }).connect();
  const http = createServer();
  const server = new Server(http, {
    adapter: createAdapter(redis),
    connectionStateRecovery: { maxDisconnectionDuration: RECOVERY_MS },
  });
  await new Promise((resolve) => http.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${http.address().port}`;
  const socket = connect(url, { transports: ["websocket"] });
  const heard = new Map();
  socket.on("number", (n) => heard.set(n, (heard.get(n) ?? 0) + 1));
  await until(() => socket.connected, () => "the client is connected");
  return { redis, server, url, socket, heard };
}

before(async () => {
  sides = await Promise.all(ports.map(side));
  for (const { redis } of sides) {
    await until(
      async () => (await redis.info("clients")).includes("blocked_clients:1\r\n"),
      () => "the adapter reads its region's stream"
    );
  }
});

after(async () => {
  for (const { server, socket, redis } of sides ?? []) {
    socket.close();
    await server.close();
    await redis.close();
  }
  // The adapters' own connections, which read on.
  setImmediate(() => process.exit());
});

test("servers of both regions count each other, and fetch each other's sockets", async () => {
  for (const { server, socket } of sides) {
    await until(
      async () => (await server.of("/").adapter.serverCount()) === 2,
      () => "both servers are counted"
    );
    const ids = (await server.fetchSockets()).map(({ id }) => id).sort();
    assert.deepEqual(ids, sides.map(({ socket }) => socket.id).sort());
    assert.ok(ids.includes(socket.id));
  }
});

test("every broadcast of either region is heard in both, once, while both write", async () => {
  for (let n = 0; n < EACH; n++) {
    sides.forEach(({ server }, at) => server.emit("number", at * EACH + n));
    // Now and then a reader gets to what came so far.
    if (n % 10 === 0) await new Promise((resolve) => setTimeout(resolve, 1));
  }
  const counts = () => sides.map(({ heard }) => heard.size).join(" and ");
  await until(
    () => sides.every(({ heard }) => heard.size === 2 * EACH),
    () => `both hear ${2 * EACH}; they heard ${counts()}`
  );
  for (const { heard } of sides) assert.ok([...heard.values()].every((times) => times === 1));
});

test("a client that comes back in the other region finds its session, and what it missed", async () => {
  const [here, there] = sides;
  const lengths = () => Promise.all(sides.map(({ redis }) => redis.xLen("socket.io")));
  const sessions = (at) => at.redis.keys("sio:session:*");

  const moving = connect(here.url, { transports: ["websocket"], forceNew: true });
  const heard = [];
  moving.on("news", (n) => heard.push(n));
  await until(() => moving.connected, () => "the client is connected");
  const { id } = moving;
  const served = here.server.of("/").sockets.get(id);
  served.join("readers");
  served.data.name = "Ann";
  here.server.to("readers").emit("news", 0);
  await until(() => heard.length === 1, () => "it hears while it is connected");

  // Cut off; what it misses is written in both regions, some of it for others.
  const before = Math.max(...(await lengths()));
  moving.io.reconnection(false);
  moving.io.engine.close();
  await until(async () => (await sessions(there)).length === 1, () => "its session is everywhere");
  for (let n = 1; n <= 20; n++) {
    sides[n % 2].server.to(n % 5 ? "readers" : "others").emit("news", n);
  }
  await until(
    async () => (await lengths()).every((length) => length === before + 20),
    () => "both regions have it all"
  );
  // Whoever hears this has read what stands before it; else the other server would tell it again.
  here.server.emit("number", "last");
  await until(() => there.heard.has("last"), () => "the other server has read it all");

  moving.io.uri = there.url;
  moving.connect();
  await until(() => moving.connected, () => "the client is connected again");
  assert.ok(moving.recovered);
  assert.equal(moving.id, id);
  assert.equal(there.server.of("/").sockets.get(id).data.name, "Ann");
  // It is in its room again.
  here.server.to("readers").emit("news", 21);
  await until(() => heard.includes(21), () => `it hears again; it heard ${heard}`);
  const missed = Array.from({ length: 20 }, (_, at) => at + 1).filter((n) => n % 5);
  assert.deepEqual(heard.toSorted((a, b) => a - b), [0, ...missed, 21]);
  await until(async () => (await sessions(here)).length === 0, () => "nobody else can take it");
  moving.close();
});
