"use strict";
(() => {
  const root = document.documentElement;
  let data = JSON.parse(document.getElementById("data").textContent);
  const nonce = document.currentScript.nonce;

  // The reader's choice, or else the system's.
  const system = matchMedia("(prefers-color-scheme: dark)");
  const button = document.getElementById("theme");
  let chosen = null;
  function theme() {
    const dark = chosen === null ? system.matches : chosen;
    root.dataset.theme = dark ? "dark" : "light";
    button.textContent = dark ? "Light" : "Dark";
    button.setAttribute("aria-label", dark ? "Switch to light colours" : "Switch to dark colours");
  }
  theme();
  system.addEventListener("change", () => { theme(); drawAll(); });
  button.addEventListener("click", () => {
    chosen = root.dataset.theme !== "dark";
    theme();
    drawAll();
  });

  const colour = (name) => getComputedStyle(root).getPropertyValue(`--${name}`).trim();

  // Colours are names, so that light and dark have their own.
  function coloured(value) {
    if (typeof value === "string") return value[0] === "@" ? colour(value.slice(1)) : value;
    if (Array.isArray(value)) {
      return typeof value[0] === "number" ? value : value.map(coloured);
    }
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, coloured(v)]));
    }
    return value;
  }

  function layout(own) {
    const axis = { gridcolor: colour("grid"), zerolinecolor: colour("grid"), linecolor: colour("line"), automargin: true };
    const made = {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", showlegend: false,
      font: { color: colour("ink"), size: 12 }, margin: { l: 50, r: 12, t: 8, b: 40 },
      legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0 },
      hoverlabel: { namelength: -1 }, ...coloured(own),
    };
    for (const name of Object.keys(made).filter((k) => /^[xy]axis/.test(k))) {
      made[name] = { ...axis, ...made[name] };
    }
    made.xaxis ??= axis;
    made.yaxis ??= axis;
    return made;
  }

  const config = { responsive: true, displayModeBar: false };
  function plot(element, figure) {
    const made = layout(figure.layout);
    // Where there is no room beside each other, names stand below each other, and below the chart.
    if (made.showlegend && figure.data.length > 2 && element.clientWidth < 480) {
      made.legend = { orientation: "v", x: 0, y: -0.35, yanchor: "top" };
      const named = (made.shapes ?? []).filter((one) => one.showlegend).length;
      element.style.height = `calc(14.5rem + ${20 * (figure.data.length + named)}px)`;
    }
    return Plotly.react(element, coloured(figure.data), made, config);
  }

  function bytes(text) {
    return Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  }

  const kinds = {
    chart(figure, block) {
      plot(figure.querySelector(".plot"), block.figure);
    },

    dial(figure, block) {
      const slider = figure.querySelector("input");
      const readings = figure.querySelector(".readings");
      const show = () => {
        const stop = block.stops[slider.value];
        const words = `${(100 * stop.rate).toPrecision(2)} %, scores below ${stop.threshold.toPrecision(5)}`;
        figure.querySelector("output").value = words;
        slider.setAttribute("aria-valuetext", words);
        readings.replaceChildren(...stop.lines.map((line) => {
          const item = document.createElement("li");
          item.textContent = line;
          return item;
        }));
        const at = { x0: stop.threshold, x1: stop.threshold, y0: 0, y1: 1, yref: "paper" };
        const look = { color: "@ink", width: 2.5, dash: "longdashdot" };
        const line = { type: "line", ...at, line: look, name: "threshold", showlegend: true };
        plot(figure.querySelector(".plot"), {
          data: block.figure.data, layout: { ...block.figure.layout, shapes: [line] },
        });
      };
      slider.oninput = show;
      show();
    },

    player(figure, block) {
      const slider = figure.querySelector('input[type="range"]');
      const last = Math.max(...block.panels.map((panel) => panel.frames.length)) - 1;
      // At its end, it follows what is new.
      const follows = +slider.value === +slider.max;
      slider.max = last;
      if (follows) slider.value = last;
      const plots = [...figure.querySelectorAll(".plot")];
      const show = () => {
        const at = +slider.value;
        const shown = block.panels.map((panel) => panel.frames[Math.min(at, panel.frames.length - 1)]);
        const steps = shown.map((frame) => frame.step).filter((step) => step > 0);
        const words = steps.length ? `update ${Math.max(...steps).toLocaleString("en")}` : "";
        figure.querySelector("output").value = words;
        slider.setAttribute("aria-valuetext", words);
        shown.forEach((frame, k) => panel(plots[k], block, block.panels[k], frame, figure));
      };
      slider.oninput = show;
      figure.querySelector("input.points").onchange = show;
      figure.querySelector("input.log").onchange = show;
      play(figure.querySelector(".play"), slider, show);
      show();
    },
  };

  function play(button, slider, show) {
    button.onclick = () => {
      if (button.timer) {
        clearInterval(button.timer);
        button.timer = null;
      } else {
        if (+slider.value === +slider.max) slider.value = 0;
        button.timer = setInterval(() => {
          slider.value = +slider.value + 1;
          show();
          if (+slider.value === +slider.max) button.onclick();
        }, 400);
      }
      button.textContent = button.timer ? "Stop" : "Play";
    };
  }

  // Of every cell, its logarithm below the top: a byte on the plane, two on the line.
  function densities(text, block, logarithm) {
    const plane = block.view[0].length === 2;
    const levels = plane ? bytes(text) : new Uint16Array(bytes(text).buffer);
    const value = (level) => block.top - block.range * (1 - level / (plane ? 255 : 65535));
    return Array.from(levels, (level) => (logarithm ? value(level) : level ? Math.exp(value(level)) : 0));
  }

  // One density, and its points, which have sixteen bits per axis.
  function panel(element, block, own, frame, figure) {
    const logarithm = figure.querySelector("input.log").checked;
    const density = densities(frame.density, block, logarithm);
    const places = new Uint16Array(bytes(frame.points).buffer);
    const axes = own.low.length;
    const along = (k) => Array.from(places.filter((_, i) => i % axes === k),
      (at) => own.low[k] + (at / 65535) * (own.high[k] - own.low[k]));
    const show = figure.querySelector("input.points").checked;
    (axes === 2 ? drawPlane : drawLine)(element, block, own, density, show ? along : () => [], logarithm);
  }

  // Midpoints of the cells along an axis.
  function axis(block, own, k) {
    const [low, high] = [own.low[k], own.high[k]];
    return Array.from({ length: block.cells }, (_, i) => low + ((i + 0.5) * (high - low)) / block.cells);
  }

  function drawPlane(element, block, own, density, along, logarithm) {
    const n = block.cells;
    const z = Array.from({ length: n }, (_, j) => Array.from({ length: n }, (_, i) => density[i * n + j]));
    const peak = Math.exp(block.top);
    plot(element, {
      data: [
        { type: "heatmap", x: axis(block, own, 0), y: axis(block, own, 1), z, colorscale: "Viridis", showscale: false, zsmooth: "best",
          zmin: logarithm ? block.top - block.range : 0, zmax: logarithm ? block.top : peak,
          hovertemplate: `(%{x:.2f}, %{y:.2f})<br>${logarithm ? "log q" : "q"} %{z:.3g}<extra></extra>` },
        { type: "scatter", mode: "markers", x: along(0), y: along(1), hoverinfo: "skip",
          marker: { size: 3, color: "@dots", opacity: 0.75 } },
      ],
      layout: { margin: { l: 24, r: 6, t: 4, b: 22 },
        xaxis: { range: [block.view[0][0], block.view[1][0]], showgrid: false, constrain: "domain" },
        yaxis: { range: [block.view[0][1], block.view[1][1]], showgrid: false, scaleanchor: "x", constrain: "domain" } },
    });
  }

  function drawLine(element, block, own, density, along, logarithm) {
    const floor = logarithm ? block.top - block.range : 0;
    const drawn = [{ type: "scatter", mode: "lines", x: axis(block, own, 0), y: density, name: "model", line: { color: own.colour, width: 2 } }];
    if (block.truth) {
      const y = densities(block.truth.frames[0].density, block, logarithm);
      drawn.push({ type: "scatter", mode: "lines", x: axis(block, block.truth, 0), y, name: "truth", line: { color: "@data", width: 1, dash: "dot" } });
    }
    const x = along(0);
    drawn.push({ type: "scatter", mode: "markers", x, y: x.map(() => floor), name: "points", hoverinfo: "skip",
      marker: { symbol: "line-ns-open", size: 9, color: own.colour, opacity: 0.4 } });
    plot(element, { data: drawn, layout: { xaxis: { range: [block.view[0][0], block.view[1][0]] }, yaxis: { title: { text: logarithm ? "log q" : "q" } } } });
  }

  function draw(id) {
    const element = document.querySelector(`[data-block="${id}"]`);
    if (element) kinds[data[id].kind](element, data[id]);
  }
  const drawAll = () => window.Plotly && Object.keys(data).forEach(draw);

  async function unpack() {
    const packed = new Blob([bytes(document.getElementById("library").textContent)]);
    const stream = packed.stream().pipeThrough(new DecompressionStream("gzip"));
    const script = document.createElement("script");
    script.nonce = nonce;
    script.textContent = await new Response(stream).text();
    document.head.append(script);
  }

  // A live page: only what changed is touched, so that sliders and scrolling stay.
  let before = null;
  function renew(news) {
    document.title = news.title;
    if (before === null || before.header !== news.header) {
      document.getElementById("header").innerHTML = news.header;
    }
    const place = document.getElementById("sections");
    const old = before && before.sections.length === news.sections.length ? before.sections : null;
    if (old === null) place.innerHTML = news.sections.map((section) => section.html).join("");
    const changed = old === null ? Object.keys(news.data) : [];
    (old || []).forEach((section, k) => {
      const { id, html } = news.sections[k];
      const all = Object.keys(news.data).filter((block) => block.startsWith(`${id}b`));
      if (section.html !== html) {
        document.getElementById(id).outerHTML = html;
        changed.push(...all);
      } else {
        changed.push(...all.filter((b) => JSON.stringify(news.data[b]) !== JSON.stringify(before.data[b])));
      }
    });
    data = news.data;
    before = news;
    changed.forEach(draw);
  }

  async function poll(address, state) {
    try {
      const answer = await fetch(address, { cache: "no-store" });
      const news = await answer.json();
      if (!answer.ok) throw new Error(news.error);
      if (JSON.stringify(news) !== JSON.stringify(before)) renew(news);
      state.textContent = "live";
    } catch (error) {
      state.textContent = error instanceof TypeError ? "the server has stopped" : `waiting: ${error.message}`;
    }
    setTimeout(poll, 1000, address, state);
  }

  unpack().then(() => {
    drawAll();
    root.dataset.drawn = "yes";
    const { live } = document.body.dataset;
    if (live) poll(live, document.getElementById("state"));
  });
})();
