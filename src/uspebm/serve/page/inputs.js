// What to judge: an image that is dropped, chosen or drawn; a row that is typed.

const $ = (id) => document.getElementById(id);

/** An array as a .npy file: what numpy reads, and the service. */
function npy(values, type, dimensions) {
  const said = `{'descr': '${type}', 'fortran_order': False, 'shape': (${dimensions.join(", ")},), }`;
  const header = said.padEnd(Math.ceil((said.length + 11) / 64) * 64 - 11) + "\n";
  const begin = new Uint8Array(10);
  begin.set([0x93, ...new TextEncoder().encode("NUMPY"), 1, 0, header.length & 255, header.length >> 8]);
  return new Blob([begin, header, values]);
}

/** The canvas is the image that the model sees, pixel by pixel; `changed` gets it as .npy. */
export function imageInput(info, changed) {
  const [height, width, channels] = info.shape;
  const canvas = $("drawing");
  canvas.width = width;
  canvas.height = height;
  const context = canvas.getContext("2d", { willReadFrequently: true });
  let swapped = false;
  const paper = () => (swapped ? "#ffffff" : "#000000");
  const ink = () => (channels === 1 ? (swapped ? "#000000" : "#ffffff") : $("ink").value);
  const brushes = $("brush");
  brushes.value = Math.max(1, Math.min(20, Math.round(height / 12)));
  brushes.max = Math.max(3, Math.round(height / 4));
  $("ink").hidden = channels === 1;
  $("image-size").textContent = `It is brought to ${info.point} here in the browser.`;

  function send() {
    const { data } = context.getImageData(0, 0, width, height);
    const values = new Float32Array(width * height * channels);
    for (let k = 0; k < width * height; k += 1) {
      const [r, g, b] = data.subarray(4 * k, 4 * k + 3);
      if (channels === 1) values[k] = Math.round(0.299 * r + 0.587 * g + 0.114 * b);
      else values.set([r, g, b, 255].slice(0, channels), channels * k);
    }
    const dimensions = channels === 1 ? [1, height, width] : [1, height, width, channels];
    const [low, high] = info.range;
    const ofBytes = low === 0 && high === 255;
    const sent = ofBytes ? Uint8Array.from(values) : values.map((v) => low + (v * (high - low)) / 255);
    changed(npy(sent, ofBytes ? "|u1" : "<f4", dimensions), "application/x-npy");
  }

  async function take(file) {
    let image;
    try {
      image = await createImageBitmap(file);
    } catch {
      changed(null, null, `${file.name} is no image that this browser reads`);
      return;
    }
    clear();
    context.imageSmoothingEnabled = image.width !== width || image.height !== height;
    context.imageSmoothingQuality = "high";
    context.drawImage(image, 0, 0, width, height);
    send();
  }

  function clear() {
    context.fillStyle = paper();
    context.fillRect(0, 0, width, height);
  }

  let last = null;
  const at = (event) => {
    const box = canvas.getBoundingClientRect();
    return [((event.clientX - box.left) / box.width) * width, ((event.clientY - box.top) / box.height) * height];
  };
  function stroke(event) {
    const next = at(event);
    context.strokeStyle = ink();
    context.lineWidth = Number(brushes.value);
    context.lineCap = "round";
    context.beginPath();
    context.moveTo(...(last ?? next));
    context.lineTo(next[0] + 0.01, next[1]);
    context.stroke();
    last = next;
  }
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    stroke(event);
  });
  canvas.addEventListener("pointermove", (event) => { if (last) stroke(event); });
  for (const end of ["pointerup", "pointercancel"]) {
    canvas.addEventListener(end, () => { if (last) send(); last = null; });
  }
  $("clear").addEventListener("click", () => { clear(); send(); });
  $("swap").addEventListener("click", () => {
    swapped = !swapped;
    $("swap").setAttribute("aria-pressed", String(swapped));
    const image = context.getImageData(0, 0, width, height);
    for (let k = 0; k < image.data.length; k += 1) if (k % 4 < 3) image.data[k] = 255 - image.data[k];
    context.putImageData(image, 0, 0);
    send();
  });
  $("file").addEventListener("change", (event) => {
    if (event.target.files.length) take(event.target.files[0]);
    event.target.value = "";
  });
  // Dropped anywhere: a file beside the frame would otherwise replace the page.
  window.addEventListener("dragover", (event) => { event.preventDefault(); $("drop").classList.add("over"); });
  window.addEventListener("dragleave", () => $("drop").classList.remove("over"));
  window.addEventListener("drop", (event) => {
    event.preventDefault();
    $("drop").classList.remove("over");
    if (event.dataTransfer.files.length) take(event.dataTransfer.files[0]);
  });
  clear();
  $("image-input").hidden = false;
}

/** The last such day up to today, as a field of dates takes it; models see only "Thu 07:30" of it. */
function lastSuch(moment) {
  const [day, time] = moment.split(" ");
  const days = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
  const found = new Date();
  found.setDate(found.getDate() - ((found.getDay() - days.indexOf(day) + 7) % 7));
  const two = (number) => String(number).padStart(2, "0");
  return `${found.getFullYear()}-${two(found.getMonth() + 1)}-${two(found.getDate())}T${time}`;
}

function field(column) {
  if (column.kind !== "category" && column.kind !== "truth") {
    const made = document.createElement("input");
    made.type = column.kind === "date" ? "datetime-local" : "text";
    made.inputMode = column.kind === "date" ? "" : "decimal";
    if (column.kind === "date") made.value = column.usual ? lastSuch(column.usual) : "";
    else made.value = column.usual ?? "";
    return made;
  }
  const made = document.createElement("select");
  const choices = column.kind === "truth" ? ["true", "false"] : [...column.levels, "a value never seen"];
  for (const choice of ["", ...choices]) made.add(new Option(choice || "(no value)", choice));
  made.value = String(column.usual ?? "");
  return made;
}

/** A form with a field per column; `changed` gets a row as JSON. */
export function rowInput(info, changed) {
  const form = $("row");
  const fields = info.columns.map((column, k) => {
    const label = document.createElement("label");
    const input = field(column);
    input.id = `column-${k}`;
    label.htmlFor = input.id;
    label.textContent = column.name;
    const both = document.createElement("div");
    both.append(label, input);
    form.append(both);
    return input;
  });

  function read(input, k) {
    const text = input.value.trim();
    if (text === "") return null;
    if (info.columns[k].kind === "truth") return text === "true";
    if (info.columns[k].kind !== "number") return text;
    const number = Number(text);
    input.setAttribute("aria-invalid", String(!Number.isFinite(number)));
    return Number.isFinite(number) ? number : text;
  }

  let waiting = 0;
  function send() {
    const row = fields.map(read);
    const gap = info.gaps ? -1 : row.indexOf(null);
    if (gap < 0) changed(JSON.stringify({ rows: [row] }), "application/json");
    else changed(null, null, `${info.columns[gap].name} has no value yet, and this model takes no gaps.`);
  }
  form.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(send, 250);
  });
  form.addEventListener("submit", (event) => { event.preventDefault(); send(); });
  $("score-csv").addEventListener("click", () => changed($("csv").value, "text/csv"));
  $("row-input").hidden = false;
  send();
}
