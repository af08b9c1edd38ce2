// node-redis over TLS, as users.  PORT is the node's, PROTOCOL 2 or 3, CERTIFICATES the folder of
// the files, PASSWORD the users'.
const assert = require("node:assert/strict");
const { readFileSync } = require("node:fs");
const { after, before, beforeEach, test } = require("node:test");
const { ErrorReply, createClient } = require("redis");
const { inFolder, next, noting, optionsOf, setCertificate } = require("./secured.cjs");

// A client that tries once; `more` are further options of its socket.
function clientOf(holder, more = {}, login = {}) {
  const client = createClient({
    socket: {
      host: "localhost",
      port: Number(process.env.PORT),
      tls: true,
      ...(holder ? optionsOf(holder) : { ca: readFileSync(inFolder("ca.pem")) }),
      reconnectStrategy: false,
      ...more,
    },
    RESP: Number(process.env.PROTOCOL),
    ...login,
  });
  client.on("error", () => {});
  return client;
}

const connected = (...words) => clientOf(...words).connect();
const whoami = (client) => client.sendCommand(["ACL", "WHOAMI"]);

async function using(client, use) {
  try {
    return await use(client);
  } finally {
    client.destroy();
  }
}

let r;
let other;

before(async () => {
  r = await connected("client-app");
  other = await connected("client-app");
});

beforeEach(() => r.flushAll());

after(async () => {
  await r.close();
  await other.close();
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
    assert.deepEqual(await client.xRange("orders:1", "-", "+"), []);
    const refused = (error) => error instanceof ErrorReply && /^NOPERM /.test(error.message);
    await assert.rejects(client.xAdd("orders:1", "*", { f: "v" }), refused);
    await assert.rejects(client.xRange("secret", "-", "+"), refused);
  });
});

test("a client is refused without a good certificate, and told why", async () => {
  for (const [holder, reason] of [
    [null, "ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED"],
    ["client-expired", "ERR_SSL_SSLV3_ALERT_CERTIFICATE_EXPIRED"],
    ["client-forged", "ERR_SSL_TLSV1_ALERT_UNKNOWN_CA"],
  ]) {
    const client = clientOf(holder);
    await assert.rejects(client.connect(), (error) => error.code === reason);
  }
});

test("a client refuses a node that it does not trust", async () => {
  const ca = readFileSync(inFolder("other-ca.pem"));
  const client = clientOf("client-app", { ca });
  await assert.rejects(client.connect(), { code: "SELF_SIGNED_CERT_IN_CHAIN" });
});

test("a client checks the name of the node", async () => {
  const client = clientOf("client-app", { host: "127.0.0.1" });
  await assert.rejects(client.connect(), { code: "ERR_TLS_CERT_ALTNAME_INVALID" });
});

test("a certificate of no user is no login, and neither is a wrong password", async () => {
  await assert.rejects(async () => {
    await using(await connected("client-stranger"), (client) => client.ping());
  }, /NOAUTH/);
  const wrong = { username: "app", password: "a-wrong-password-of-users" };
  await assert.rejects(connected("client-app", {}, wrong), /WRONGPASS/);
});

test("a subscriber hears what is published", async () => {
  const heard = [];
  await using(await connected("client-app"), async (listener) => {
    const all = new Promise((resolve) => {
      listener.subscribe("news", (message) => heard.push(message) === 100 && resolve());
    });
    while ((await r.pubSubNumSub("news")).news !== 1) continue;
    for (let n = 0; n < 100; n++) await r.publish("news", String(n));
    await all;
  });
  assert.deepEqual(heard, Array.from({ length: 100 }, (_, n) => String(n)));
});

test("a long pipeline and a large value", async () => {
  const adding = Array.from({ length: 1000 }, (_, n) => r.xAdd("s", "*", { n: String(n) }));
  assert.equal(new Set(await Promise.all(adding)).size, 1000);
  const value = "0123456789abcdef".repeat((8 << 20) / 16);
  assert.equal(await r.set("large", value), "OK");
  assert.equal(await r.get("large"), value);
});

test("a client reconnects after the node got another certificate", async () => {
  const shown = [];
  const client = await connected("client-app", { ...noting(shown), reconnectStrategy: 5 });
  await using(client, async () => {
    const id = await client.clientId();
    try {
      await client.sendCommand(setCertificate("renewed"));
      assert.equal(await client.ping(), "PONG");
      assert.deepEqual(shown, ["server"]);
      const ready = next(client, "ready");
      await other.sendCommand(["CLIENT", "KILL", "ID", String(id)]);
      await ready;
      assert.equal(await client.ping(), "PONG");
      assert.deepEqual(shown, ["server", "renewed"]);
    } finally {
      await other.sendCommand(setCertificate("region-1"));
    }
  });
});

test("a client keeps the certificate that it was made with", async () => {
  // The options hold the contents of the files: a renewed certificate needs a new client.
  const options = optionsOf("client-app");
  const client = await connected("client-app", { ...options, reconnectStrategy: 5 });
  await using(client, async () => {
    Object.assign(options, optionsOf("client-reader"));
    const ready = next(client, "ready");
    await other.sendCommand(["CLIENT", "KILL", "ID", String(await client.clientId())]);
    await ready;
    assert.equal(await whoami(client), "app");
  });
});
