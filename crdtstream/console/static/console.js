// Changes the figures of a page as the node reports them, and draws its curves.
//
// The node sends texts by name, and the new points of curves, once a second; whatever a page does
// not show is passed over.  Nothing is read from anywhere else, and nothing is sent: forms are sent by
// the browser itself.
"use strict";

const WIDTH = 120, HEIGHT = 24, POINTS = 120;
// Time without news after which a page says that its figures are old.
const SILENCE_MS = 5000;
// Points without movement after which a curve fades.
const IDLE_POINTS = 30;

const body = document.body;
const curves = new Map();
let texts = {};
let newestPoints = {};
let heardAt = 0;

for (const svg of document.querySelectorAll("svg[data-curve]")) {
  const given = svg.dataset.points;
  const points = given === undefined ? [] : given.split(" ").map((one) => (one === "" ? null : Number(one)));
  curves.set(svg.dataset.curve, { svg, points, isFed: false });
  draw(curves.get(svg.dataset.curve));
}

// Points of a curve as a line and the area below it; where nothing is known the line is broken.
function draw(curve) {
  const points = curve.points.slice(-POINTS);
  const most = Math.max(1, ...points.filter((one) => one !== null));
  const x = (at) => ((at + POINTS - points.length) * WIDTH) / (POINTS - 1);
  const y = (value) => HEIGHT - 1.5 - (value / most) * (HEIGHT - 4);
  let line = "", area = "", begin = null;
  points.forEach((value, at) => {
    if (value === null) return;
    const place = `${x(at).toFixed(1)} ${y(value).toFixed(1)}`;
    const begins = at === 0 || points[at - 1] === null;
    if (begins) begin = at;
    line += `${begins ? "M" : "L"}${place}`;
    area += `${begins ? `M${x(at).toFixed(1)} ${HEIGHT}L` : "L"}${place}`;
    if (at === points.length - 1 || points[at + 1] === null) {
      if (begin === at) line += "h0.01";
      area += `L${x(at).toFixed(1)} ${HEIGHT}Z`;
    }
  });
  curve.svg.querySelector(".line").setAttribute("d", line);
  curve.svg.querySelector(".area").setAttribute("d", area);
  const last = points.slice(-IDLE_POINTS);
  const isIdle = last.length < 2 || last.every((one) => one === null || one === last[0]);
  curve.svg.classList.toggle("idle", isIdle);
}

function show(cells) {
  Object.assign(texts, cells);
  for (const element of document.querySelectorAll("[data-cell]")) {
    const text = cells[element.dataset.cell];
    if (text === undefined || element.textContent === text) continue;
    element.textContent = text;
    if (element.dataset.state !== undefined) element.dataset.state = text;
  }
  for (const element of document.querySelectorAll("[data-state-of]")) {
    const state = cells[element.dataset.stateOf];
    if (state !== undefined) element.dataset.state = state;
  }
}

function made(tag, text, className) {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  if (className !== undefined) element.className = className;
  return element;
}

function showNotices(notices) {
  const list = document.querySelector("[data-notices]");
  if (list === null) return;
  const items = notices.map((one) => {
    const item = made("li");
    item.dataset.severity = one.severity;
    const words = made("div");
    words.append(made("p", one.text), made("p", one.advice, "quiet"));
    item.append(made("b", one.severity, "severity"), words, made("code", one.alert));
    return item;
  });
  if (items.length === 0) {
    const item = made("li");
    item.dataset.severity = "none";
    item.append(made("p", "Nothing needs attention."));
    items.push(item);
  }
  list.replaceChildren(...items);
}

// Moves all curves on by a second: a point that was not sent is the one before it.
function move(points) {
  Object.assign(newestPoints, points);
  for (const [name, curve] of curves) {
    const point = newestPoints[name];
    curve.points.push(point === undefined ? null : point);
    curve.points.splice(0, curve.points.length - POINTS);
    draw(curve);
  }
}

function say(text) {
  const banner = document.getElementById("banner");
  const link = made("a", "Reload this page");
  link.href = location.href;
  banner.replaceChildren(made("span", text), " ", link);
  delete banner.dataset.offer;
  banner.hidden = false;
}

// The node is silent: the other regions have pages as well, as far as it said where.
function offerOthers() {
  const banner = document.getElementById("banner");
  const links = [];
  for (const [name, url] of Object.entries(texts)) {
    const region = /^region\.(\d+)\.url$/.exec(name);
    if (region === null) continue;
    const link = made("a", `region ${region[1]}`);
    link.href = url + location.pathname;
    links.push(" ", link);
  }
  if (!banner.hidden || links.length === 0) return;
  banner.replaceChildren(made("span", "This node is silent. Look at:"), ...links);
  banner.dataset.offer = "";
  banner.hidden = false;
}

function withdrawOffer() {
  const banner = document.getElementById("banner");
  if (banner.dataset.offer === undefined) return;
  delete banner.dataset.offer;
  banner.hidden = true;
}

function setLive(state, word) {
  const element = document.querySelector(".live");
  if (element.dataset.state === state) return;
  if (state === "on") withdrawOffer();
  element.dataset.state = state;
  element.querySelector("[data-live-word]").textContent = word;
  body.classList.toggle("old", state !== "on");
}

function isOld(whole) {
  if (whole.assets !== body.dataset.assets) {
    say("The node runs another version than this page is of.");
    return true;
  }
  if (whole.shape !== body.dataset.shape) {
    say("Regions were added or removed.");
    return true;
  }
  return false;
}

// Of the connections that a browser opens to one node an event stream takes one, and six are all:
// a page that is not seen has none.
let source = null;
let isStopped = false;

function follow() {
  if (document.hidden) {
    if (source !== null) source.close();
    source = null;
  } else if (source === null && !isStopped) {
    listen();
  }
}

function listen() {
  source = new EventSource(body.dataset.live);
  source.addEventListener("whole", (event) => {
    const whole = JSON.parse(event.data);
    if (isOld(whole)) {
      source.close();
      isStopped = true;
      setLive("off", "stopped");
      return;
    }
    heardAt = Date.now();
    newestPoints = {};
    for (const [name, points] of Object.entries(whole.curves)) {
      if (points.length) newestPoints[name] = points[points.length - 1];
      const curve = curves.get(name);
      if (curve) {
        curve.points = points;
        draw(curve);
      }
    }
    show(whole.cells);
    showNotices(whole.notices);
    setLive("on", "live");
  });
  source.addEventListener("change", (event) => {
    const change = JSON.parse(event.data);
    heardAt = Date.now();
    show(change.cells);
    move(change.curves || {});
    if (change.notices) showNotices(change.notices);
    setLive("on", "live");
  });
  source.addEventListener("error", () => {
    // A browser tries again by itself, except if the node refused.
    if (source.readyState === EventSource.CLOSED) {
      isStopped = true;
      setLive("off", "not live, as of");
      say("This page gets no new figures: the node refuses, or as many pages are open as may be.");
    }
  });
}

function begin() {
  follow();
  document.addEventListener("visibilitychange", follow);
  setInterval(() => {
    if (heardAt === 0 || Date.now() - heardAt < SILENCE_MS) return;
    setLive("off", "no news since");
    offerOthers();
    // The curves go on without points, so that old ones do not look like now.
    for (const curve of curves.values()) {
      curve.points.push(null);
      curve.points.splice(0, curve.points.length - POINTS);
      draw(curve);
    }
  }, 1000);
}

if (body.dataset.live !== undefined) begin();

// An outcome is looked at again until it has ended, and an added region has joined.
const WATCH_MS = 1000;

async function watch() {
  const answer = document.hidden ? null : await fetch(location.href).catch(() => null);
  if (answer !== null && answer.ok) {
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const found = page.querySelector("[data-outcome]");
    const shown = document.querySelector("[data-outcome]");
    if (found.textContent !== shown.textContent) shown.replaceChildren(...found.childNodes);
    if (!("followed" in found.dataset)) return;
  }
  setTimeout(watch, WATCH_MS);
}

if (document.querySelector("[data-followed]") !== null) setTimeout(watch, WATCH_MS);
