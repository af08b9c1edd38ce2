// Files of certificates for the clients over TLS: CERTIFICATES is their folder.  Without it the
// options are empty, and the tests of TLS are left out.
const { readFileSync } = require("node:fs");
const { join } = require("node:path");
const tls = require("node:tls");

const folder = process.env.CERTIFICATES;
const inFolder = (...names) => join(folder, ...names);
const isSecured = folder !== undefined;

// Options of node:tls for a holder of a certificate; both clients pass them on.
function optionsOf(holder) {
  return {
    ca: readFileSync(inFolder("ca.pem")),
    cert: readFileSync(inFolder(holder, "cert.pem")),
    key: readFileSync(inFolder(holder, "key.pem")),
  };
}

// The files that CONFIG SET names for the node.
const setCertificate = (name) => [
  ...["CONFIG", "SET", "tls-cert-file", inFolder(name, "cert.pem")],
  ...["tls-key-file", inFolder(name, "key.pem")],
];

// Options that note the name in each certificate of the node, and check it as usual.
function noting(shown) {
  return {
    checkServerIdentity: (host, certificate) => {
      shown.push(certificate.subject.CN);
      return tls.checkServerIdentity(host, certificate);
    },
  };
}

// The next such event; unlike once of node:events it ignores errors that come before.
const next = (client, event) => new Promise((resolve) => client.once(event, resolve));

module.exports = { inFolder, isSecured, next, noting, optionsOf, setCertificate };
