// Plays a report: asks for the texts of one moment after the other, and shows them.
//
// The slider moves at once; of the moments that were passed meanwhile only the newest is asked for.
"use strict";

const TICK_MS = 250;
const form = document.querySelector("[data-replay]");
const slider = document.getElementById("at");
const speed = document.getElementById("speed");
const playing = document.getElementById("play");
const moment = document.querySelector(".strip .moment");
let timer = null;
let wanted = null;
let isAsking = false;

for (const element of [playing, speed, form.querySelector("label[for=speed]")]) element.hidden = false;
document.getElementById("show").hidden = true;

async function ask() {
  if (isAsking) return;
  isAsking = true;
  while (wanted !== null) {
    const at = wanted;
    wanted = null;
    const answer = await fetch(`${form.dataset.replay}&at=${at}`).catch(() => null);
    if (answer === null || !answer.ok) {
      stop();
      say("The program that shows reports has ended, or the report is gone.");
      break;
    }
    const found = await answer.json();
    show(found.cells);
    slider.setAttribute("aria-valuetext", found.cells.at);
  }
  isAsking = false;
}

function go(at) {
  slider.value = at;
  const share = (Number(slider.value) - slider.min) / (slider.max - slider.min || 1);
  // A scenario has no strip.
  for (const end of ["x1", "x2"]) moment?.setAttribute(end, 1000 * share);
  wanted = Number(slider.value).toFixed(1);
  ask();
}

function stop() {
  clearInterval(timer);
  timer = null;
  playing.textContent = "Play";
}

function play() {
  // At the end it begins again.
  if (Number(slider.value) >= Number(slider.max)) go(slider.min);
  playing.textContent = "Pause";
  let at = Number(slider.value);
  timer = setInterval(() => {
    at += (Number(speed.value) * TICK_MS) / 1000;
    go(at);
    if (at >= Number(slider.max)) stop();
  }, TICK_MS);
}

playing.addEventListener("click", () => (timer === null ? play() : stop()));
slider.addEventListener("input", () => {
  stop();
  go(slider.value);
});
form.addEventListener("submit", (event) => event.preventDefault());
