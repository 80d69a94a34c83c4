// Drawings: the histogram of normal data, pixels, and heat over them.

const SVG = "http://www.w3.org/2000/svg";
const [WIDTH, HEIGHT, SIDE, TOP, FOOT] = [640, 240, 8, 34, 30];

function shape(svg, name, attributes, text) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  svg.append(made);
}

function anchored(x) {
  if (x > WIDTH * 0.75) return "end";
  return x < WIDTH * 0.25 ? "start" : "middle";
}

/** Bars of the calibration scores, the threshold, and a mark where `score` is (null: far below). */
export function drawHistogram(svg, calibration, threshold, score) {
  svg.replaceChildren();
  const { edges, counts } = calibration;
  const [low, high] = [edges[0], edges[edges.length - 1]];
  // Room at both ends, so that a mark beyond all bars is seen to be beyond.
  const margin = 0.12 * (high - low || 1);
  const left = low - margin;
  const right = high + margin;
  const place = (value) => {
    const share = (Math.min(Math.max(value, left), right) - left) / (right - left);
    return SIDE + share * (WIDTH - 2 * SIDE);
  };
  const most = Math.max(...counts, 1);
  const floor = HEIGHT - FOOT;
  counts.forEach((count, k) => {
    const height = (count / most) * (floor - TOP);
    const middle = (edges[k] + edges[k + 1]) / 2;
    shape(svg, "rect", {
      class: middle < threshold ? "bar low" : "bar",
      x: place(edges[k]), y: floor - height, height,
      width: Math.max(place(edges[k + 1]) - place(edges[k]) - 1, 1),
    });
  });
  shape(svg, "line", { class: "axis", x1: SIDE, x2: WIDTH - SIDE, y1: floor, y2: floor });
  const limit = place(threshold);
  shape(svg, "line", { class: "limit", x1: limit, x2: limit, y1: TOP - 8, y2: floor });
  shape(svg, "text", { x: limit, y: HEIGHT - 8, "text-anchor": anchored(limit) }, "threshold");
  if (score === undefined) return;
  const beyond = score === null || score < left;
  const x = beyond ? SIDE + 6 : place(score);
  shape(svg, "line", { class: "mark", x1: x, x2: x, y1: TOP - 6, y2: floor });
  shape(svg, "path", { class: "tip", d: beyond ? `M${x - 8} ${TOP + 20} l10 -7 v14 z` : `M${x} ${floor} l-6 -10 h12 z` });
  shape(svg, "text", { class: "strong", x, y: TOP - 14, "text-anchor": anchored(x) },
    beyond ? "this one, far lower" : "this one");
}

/** Nested lists of numbers, (H, W) or (H, W, 3), on a canvas of as many pixels. */
export function drawPixels(canvas, pixels, [low, high]) {
  const [height, width] = [pixels.length, pixels[0].length];
  canvas.width = width;
  canvas.height = height;
  const context = canvas.getContext("2d");
  const image = context.createImageData(width, height);
  pixels.flat().forEach((pixel, k) => {
    const three = Array.isArray(pixel) ? pixel.slice(0, 3) : [pixel, pixel, pixel];
    three.forEach((value, c) => { image.data[4 * k + c] = (255 * (value - low)) / (high - low); });
    image.data[4 * k + 3] = 255;
  });
  context.putImageData(image, 0, 0);
}

/** What is strange of an image, in red over a faint copy of it. */
export function drawHeat(canvas, heat, drawing) {
  const [height, width] = [heat.length, heat[0].length];
  canvas.width = width;
  canvas.height = height;
  const context = canvas.getContext("2d");
  context.drawImage(drawing, 0, 0, width, height);
  const image = context.getImageData(0, 0, width, height);
  const most = Math.max(...heat.flat().map((value) => value ?? 0), 1e-12);
  heat.flat().forEach((value, k) => {
    const share = Math.max((value ?? 0) / most, 0) ** 0.7;
    const red = [255, 60, 30];
    for (let c = 0; c < 3; c += 1) {
      const faint = 0.45 * image.data[4 * k + c];
      image.data[4 * k + c] = share * red[c] + (1 - share) * faint;
    }
  });
  context.putImageData(image, 0, 0);
}
