// ioredis over TLS, as users.  PORT is the node's, PACKAGE the name that this version of it is
// installed by, CERTIFICATES the folder of the files, PASSWORD the users'.
const assert = require("node:assert/strict");
const { readFileSync } = require("node:fs");
const { after, before, beforeEach, test } = require("node:test");
const { inFolder, next, noting, optionsOf, setCertificate } = require("./secured.cjs");
const Redis = require(process.env.PACKAGE);

// A client that tries once; `more` are further options of its socket.
function clientOf(holder, more = {}, others = {}) {
  const client = new Redis({
    host: "localhost",
    port: Number(process.env.PORT),
    tls: { ...(holder ? optionsOf(holder) : { ca: readFileSync(inFolder("ca.pem")) }), ...more },
    retryStrategy: () => null,
    lazyConnect: true,
    ...others,
  });
  client.on("error", () => {});
  return client;
}

async function connected(...words) {
  const client = clientOf(...words);
  await client.connect();
  return client;
}

async function using(client, use) {
  try {
    return await use(client);
  } finally {
    client.disconnect();
  }
}

const whoami = (client) => client.call("ACL", "WHOAMI");
// The first error of a client that cannot connect.
async function refusal(client) {
  const error = next(client, "error");
  await assert.rejects(client.connect());
  return error;
}

let r;
let other;

before(async () => {
  r = await connected("client-app");
  other = await connected("client-app");
});

beforeEach(() => r.flushall());

after(async () => {
  await r.quit();
  await other.quit();
});

test("a certificate is the login", async () => {
  assert.equal(await whoami(r), "app");
});

test("a name and a password replace the user of the certificate", async () => {
  const login = { username: "reader", password: process.env.PASSWORD };
  for (const holder of ["client-app", "client-stranger"]) {
    await using(await connected(holder, {}, login), async (client) => {
      assert.equal(await whoami(client), "reader");
    });
  }
});

test("what a user may not do is an error of the library", async () => {
  await using(await connected("client-reader"), async (client) => {
    assert.deepEqual(await client.xrange("orders:1", "-", "+"), []);
    const refused = (error) => error instanceof Redis.ReplyError && /^NOPERM /.test(error.message);
    await assert.rejects(client.xadd("orders:1", "*", "f", "v"), refused);
    await assert.rejects(client.xrange("secret", "-", "+"), refused);
  });
});

test("a client is refused without a good certificate, and told why", async () => {
  for (const [holder, reason] of [
    [null, "ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED"],
    ["client-expired", "ERR_SSL_SSLV3_ALERT_CERTIFICATE_EXPIRED"],
    ["client-forged", "ERR_SSL_TLSV1_ALERT_UNKNOWN_CA"],
  ]) {
    assert.equal((await refusal(clientOf(holder))).code, reason);
  }
});

test("a client refuses a node that it does not trust", async () => {
  const ca = readFileSync(inFolder("other-ca.pem"));
  const { code } = await refusal(clientOf("client-app", { ca }));
  assert.equal(code, "SELF_SIGNED_CERT_IN_CHAIN");
});

test("a client checks the name of the node", async () => {
  const client = clientOf("client-app", {}, { host: "127.0.0.1" });
  assert.equal((await refusal(client)).code, "ERR_TLS_CERT_ALTNAME_INVALID");
});

test("a certificate of no user is no login, and neither is a wrong password", async () => {
  assert.match((await refusal(clientOf("client-stranger"))).message, /NOAUTH/);
  const wrong = { username: "app", password: "a-wrong-password-of-users" };
  assert.match((await refusal(clientOf("client-app", {}, wrong))).message, /WRONGPASS/);
});

test("a subscriber hears what is published", async () => {
  const heard = [];
  await using(await connected("client-app"), async (listener) => {
    const all = new Promise((resolve) => {
      listener.on("message", (_, message) => heard.push(message) === 100 && resolve());
    });
    await listener.subscribe("news");
    for (let n = 0; n < 100; n++) await r.publish("news", String(n));
    await all;
  });
  assert.deepEqual(heard, Array.from({ length: 100 }, (_, n) => String(n)));
});

test("a long pipeline and a large value", async () => {
  const pipeline = r.pipeline();
  for (let n = 0; n < 1000; n++) pipeline.xadd("s", "*", "n", n);
  const replies = await pipeline.exec();
  assert.equal(new Set(replies.map(([error, id]) => error ?? id)).size, 1000);
  const value = "0123456789abcdef".repeat((8 << 20) / 16);
  assert.equal(await r.set("large", value), "OK");
  assert.equal(await r.get("large"), value);
});

test("a client reconnects after the node got another certificate", async () => {
  const shown = [];
  const client = await connected("client-app", noting(shown), { retryStrategy: () => 5 });
  await using(client, async () => {
    const id = await client.client("ID");
    try {
      await client.call(...setCertificate("renewed"));
      assert.equal(await client.ping(), "PONG");
      assert.deepEqual(shown, ["server"]);
      const ready = next(client, "ready");
      await other.client("KILL", "ID", id);
      await ready;
      assert.equal(await client.ping(), "PONG");
      assert.deepEqual(shown, ["server", "renewed"]);
    } finally {
      await other.call(...setCertificate("region-1"));
    }
  });
});
