// A node-redis client that moves to another region by itself: the recipe of docs/failover.md.
//
//   node docs/failover_node_redis.cjs 8381 127.0.0.1:6381 127.0.0.2:6381 127.0.0.3:6381
//
// The first number is the regions' HTTP port; of the regions, the nearest comes first.  For closed
// regions: REDIS_USERNAME, REDIS_PASSWORD, and the files REDIS_CA, REDIS_CERT, REDIS_KEY; pages are
// asked by https then, whose authority Node.js takes from NODE_EXTRA_CA_CERTS.
const { readFileSync } = require("fs");
const { createClient } = require("redis");

class Regions {
  // addresses: host:port each, the nearest first.  pages: "http" or "https".  login and tls: options
  // of createClient and of its socket, such as { username, password } and { tls: true, ca, cert, key }.
  constructor(addresses, { httpPort, lagMsMax = 5000, everyMs = 1000, pages = "http", login, tls }) {
    this.everyMs = everyMs;
    this.login = login;
    this.regions = addresses.map((address) => {
      const [host, port] = address.split(":");
      const check = `${pages}://${host}:${httpPort}/v1/bdbs/1/availability`;
      return {
        socket: { host, port: Number(port), connectTimeout: 1000, reconnectStrategy: false, ...tls },
        url: `${check}?extend_check=lag&availability_lag_tolerance_ms=${lagMsMax}`,
        client: null,
      };
    });
  }

  async start() {
    await this.look();
    this.timer = setInterval(() => this.look(), this.everyMs);
    return this;
  }

  async stop() {
    clearInterval(this.timer);
    for (const region of this.regions) this.leave(region);
  }

  // Ask all regions; of those that are available, keep a connection.
  look() {
    return Promise.all(this.regions.map((region) => this.lookAt(region)));
  }

  async lookAt(region) {
    if (!(await isAvailable(region.url))) return this.leave(region);
    if (region.client !== null) return;
    const { socket } = region;
    const client = createClient({ ...this.login, socket, disableOfflineQueue: true });
    client.on("error", () => region.client === client && this.leave(region));
    region.client = client;
    await client.connect().catch(() => region.client === client && this.leave(region));
  }

  // What waits for an answer of this region is rejected at once: run() goes to the next one.
  leave(region) {
    const { client } = region;
    region.client = null;
    if (client?.isOpen) client.destroy();
  }

  // Run commands in the nearest region that is available; in the next one if that fails.
  async run(commands) {
    let problem = new Error("no region is available");
    for (const region of this.regions) {
      if (!region.client?.isReady) continue;
      try {
        return await commands(region.client);
      } catch (error) {
        problem = error;
      }
    }
    throw problem;
  }
}

async function isAvailable(url) {
  try {
    return (await fetch(url, { signal: AbortSignal.timeout(1000) })).ok;
  } catch {
    return false;
  }
}

// What closed regions ask for, from variables; nothing without them.
function closed({ REDIS_USERNAME, REDIS_PASSWORD, REDIS_CA, REDIS_CERT, REDIS_KEY }) {
  const login = REDIS_PASSWORD && { username: REDIS_USERNAME, password: REDIS_PASSWORD };
  if (!REDIS_CA) return { login };
  const [ca, cert, key] = [REDIS_CA, REDIS_CERT, REDIS_KEY].map((path) => readFileSync(path));
  return { login, pages: "https", tls: { tls: true, ca, cert, key } };
}

// Append entries for ever, and print the number of each and the ID that it got.
async function main(httpPort, addresses, everyMs) {
  const options = { httpPort, everyMs, ...closed(process.env) };
  const regions = await new Regions(addresses, options).start();
  for (let n = 0; ; n++) {
    // With an idempotent ID, a retry in another region is recognised: no entry comes twice.
    const append = ["XADD", "messages", "IDMP", "p1", `${process.pid}-${n}`, "*", "n", String(n)];
    try {
      console.log(n, await regions.run((client) => client.sendCommand(append)));
    } catch (error) {
      console.log(`no region at present: ${error.message}`);
    }
    await new Promise((resolve) => setTimeout(resolve, everyMs / 10));
  }
}

module.exports = { Regions };
if (require.main === module) {
  const [httpPort, ...addresses] = process.argv.slice(2);
  main(Number(httpPort), addresses, Number(process.env.EVERY_MS ?? 1000));
}
