// Asks the service, and shows what it says. Nothing is sent anywhere else.

import { drawHeat, drawHistogram, drawPixels } from "/charts.js";
import { imageInput, rowInput } from "/inputs.js";

const $ = (id) => document.getElementById(id);
const REASONS = 8;
const NEIGHBOURS = 5;
let token = "";
let info = null;
let found = null;
let chosen = 0;
let asked = 0;

function number(value) {
  if (value === null || value === undefined) return "–";
  if (typeof value !== "number") return String(value);
  const far = value !== 0 && (Math.abs(value) >= 1e6 || Math.abs(value) < 1e-4);
  return (far ? value.toExponential(2) : String(Number(value.toPrecision(4)))).replaceAll("-", "−");
}

const percent = (rate) => `${Number((100 * rate).toPrecision(2))} %`;

async function ask(path, options = {}) {
  const headers = { ...options.headers };
  if (token) headers.authorization = `Bearer ${token}`;
  const answer = await fetch(path, { ...options, headers });
  const said = await answer.json();
  if (!answer.ok) throw Object.assign(new Error(said.error), { status: answer.status });
  return said;
}

function complain(text) {
  $("problem").textContent = text;
  $("problem").hidden = !text;
}

async function judge(body, kind, wrong = "") {
  asked += 1;
  const own = asked;
  if (wrong) {
    complain(wrong);
    return;
  }
  const more = new URLSearchParams();
  if (info.explains) more.set("why", REASONS);
  if (info.neighbours) more.set("nearest", NEIGHBOURS);
  try {
    const said = await ask(`/score?${more}`, { method: "POST", body, headers: { "content-type": kind } });
    if (own !== asked) return; // another question came after this one
    found = said;
    chosen = said.p_value.indexOf(Math.min(...said.p_value));
    complain(said.warnings.join(" "));
    show();
  } catch (error) {
    if (own === asked) complain(error.message);
  }
}

const rate = () => info.calibration.rates[Number($("rate").value)];
const threshold = () => info.calibration.thresholds[Number($("rate").value)];

function show() {
  $("rate-said").textContent = percent(rate());
  $("rate").setAttribute("aria-valuetext", percent(rate()));
  $("threshold").textContent = number(threshold());
  const score = found === null ? undefined : found.score[chosen];
  drawHistogram($("histogram"), info.calibration, threshold(), score);
  const points = info.calibration.points.toLocaleString("en");
  $("histogram-said").textContent = `Scores of ${points} normal points; higher is more like the data.`;
  if (found === null) return;
  const p = found.p_value[chosen];
  const strange = p <= rate();
  $("call").textContent = strange ? "Outlier" : "Like the data";
  $("call").className = strange ? "call strange" : "call normal";
  $("score").textContent = score === null ? "−∞" : number(score);
  $("p-value").textContent = number(Number(p.toPrecision(3)));
  $("meaning").textContent = p > 1.5 / (info.calibration.points + 1)
    ? `Of normal points, about ${percent(p)} score as low.`
    : `Of ${points} normal points, none scores as low.`;
  showRows();
  showWhy();
  showNearest();
}

function table(target, head, rows) {
  const lines = [head, ...rows].map((cells, k) => {
    const line = document.createElement("tr");
    for (const cell of cells) {
      const made = document.createElement(k ? "td" : "th");
      made.append(cell);
      line.append(made);
    }
    return line;
  });
  target.replaceChildren(...lines);
  return lines.slice(1);
}

function showRows() {
  const many = found.score.length > 1;
  $("rows-found").hidden = !many;
  if (!many) return;
  const rows = found.score.slice(0, 500).map((score, k) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = `row ${k + 1}`;
    button.addEventListener("click", () => { chosen = k; show(); });
    return [button, number(score), number(found.p_value[k]), found.p_value[k] <= rate() ? "outlier" : ""];
  });
  table($("all-rows"), ["", "score", "p-value", "verdict"], rows).forEach((line, k) => {
    line.setAttribute("aria-current", String(k === chosen));
    line.lastChild.className = "strange";
  });
}

function showWhy() {
  const why = found.why?.[chosen];
  $("why-part").hidden = !why;
  if (!why) return;
  if (info.kind === "images") {
    const canvas = document.createElement("canvas");
    canvas.className = "heat";
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", "The brighter the red, the more that place costs");
    drawHeat(canvas, why, $("drawing"));
    $("why").replaceChildren(canvas);
    return;
  }
  if (!why.length) {
    $("why").textContent = "No column stands out.";
    return;
  }
  const most = Math.max(...why.map((one) => one.gain));
  const made = document.createElement("table");
  table(made, ["column", "here", "expected", "costs"], why.map((one) => {
    const bar = document.createElement("meter");
    bar.max = most;
    bar.value = one.gain;
    bar.textContent = number(one.gain);
    bar.title = `${number(one.gain)} of score`;
    return [one.column, number(one.value), number(one.expected), bar];
  }));
  $("why").replaceChildren(made);
}

function showNearest() {
  const near = found.nearest?.[chosen];
  $("nearest-part").hidden = !near?.length;
  if (!near?.length) return;
  if (info.neighbours === "images") {
    const images = document.createElement("div");
    images.className = "images";
    images.append(...near.map((one) => {
      const [figure, canvas, text] = ["figure", "canvas", "figcaption"].map((n) => document.createElement(n));
      canvas.setAttribute("role", "img");
      canvas.setAttribute("aria-label", `Training image ${one.number}`);
      drawPixels(canvas, one.image, info.range);
      text.textContent = `at ${number(one.distance)}`;
      figure.append(canvas, text);
      return figure;
    }));
    $("nearest").replaceChildren(images);
    return;
  }
  const made = document.createElement("table");
  if (info.neighbours === "rows") {
    const names = info.columns.map((column) => column.name);
    table(made, ["distance", ...names], near.map((one) => [number(one.distance), ...one.row.map(number)]));
  } else {
    table(made, ["distance", "number of the training image"], near.map((one) => [number(one.distance), String(one.number)]));
  }
  $("nearest").replaceChildren(made);
}

async function begin() {
  try {
    info = await ask("/info");
  } catch (error) {
    $("access").hidden = error.status !== 401;
    $("verdict").textContent = token || error.status !== 401 ? error.message : "";
    return;
  }
  $("access").hidden = true;
  document.title = `${info.title} – uspebm`;
  $("title").textContent = info.title;
  $("verdict").textContent = `One point: ${info.point}. ${info.verdict[0].toUpperCase()}${info.verdict.slice(1)}.`;
  $("fitted").textContent = `Fitted ${info.fitted}; uspebm ${info.uspebm}`;
  const { rates } = info.calibration;
  $("rate").max = rates.length - 1;
  const near = rates.map((r) => Math.abs(Math.log(r / info.false_alarm_rate)));
  $("rate").value = near.indexOf(Math.min(...near));
  $("rate").addEventListener("input", show);
  $("work").hidden = false;
  show();
  if (info.kind === "table") rowInput(info, judge);
  else if (info.range) imageInput(info, judge);
  else complain("This model takes images of floats, and nobody knows how they were scaled: it can be asked by POST /score.");
}

$("access").addEventListener("submit", (event) => {
  event.preventDefault();
  token = $("token").value.trim();
  begin();
});
begin();
