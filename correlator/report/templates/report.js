"use strict";
// Zoom, hover and copy. Without it the page is whole: this adds to what is there and never makes what it says.
const make = (name, text) => Object.assign(document.createElement(name), text ? { textContent: text } : {});

for (const block of document.querySelectorAll("pre.command")) {
  const said = block.textContent;
  const button = make("button", "Copy");
  button.type = "button";
  button.addEventListener("click", async () => {
    let done = true;
    try {
      await navigator.clipboard.writeText(said);
    } catch { // a page without an address of its own may not use the clipboard itself
      const area = make("textarea", said);
      block.append(area);
      area.select();
      done = document.execCommand("copy");
      area.remove();
    }
    button.textContent = done ? "Copied" : "Select and copy";
    setTimeout(() => (button.textContent = "Copy"), 1500);
  });
  block.append(button);
}

const tip = make("div");
tip.id = "hover";
tip.hidden = true;
tip.setAttribute("role", "tooltip");
document.body.append(tip);
const spots = "i.spot, .field rect";
function show(target) {
  const titled = target.querySelector("title");
  if (titled) {
    target.dataset.tip = titled.textContent;
    titled.remove();
  } else if (target.title) {
    target.dataset.tip = target.title;
    target.removeAttribute("title");
  }
  tip.textContent = target.dataset.tip || "";
  tip.hidden = !tip.textContent;
  const at = target.getBoundingClientRect();
  const left = Math.min(at.left, document.documentElement.clientWidth - tip.offsetWidth - 8);
  const below = at.bottom + 8 + tip.offsetHeight < window.innerHeight;
  tip.style.left = `${Math.max(4, left)}px`;
  tip.style.top = `${below ? at.bottom + 8 : Math.max(4, at.top - tip.offsetHeight - 8)}px`;
}
for (const kind of ["pointerover", "focusin", "click"])
  document.addEventListener(kind, (event) => {
    const target = event.target.closest(spots);
    if (target) show(target);
    else tip.hidden = true;
  });
document.addEventListener("keydown", (event) => (tip.hidden = tip.hidden || event.key === "Escape"));

// The same steps and units as ticks.py has.
const UNITS = [[86400, 86400, "d"], [3600, 3600, "h"], [60, 60, "min"], [0.1, 1, "s"], [0, 0.001, "ms"]];
const POWERS = (from, to) => Array.from({ length: to - from }, (_, at) => [1, 2, 5].map((one) => one * 10 ** (from + at))).flat();
const STEPS = [...POWERS(-9, 1), 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 10800, 21600, 43200,
  ...POWERS(0, 6).map((days) => 86400 * days)];
const TICK_WIDTH = 90; // pixels, with the gap to the next one
function ticks(first, last, width) {
  const most = Math.max(2, Math.min(8, width / TICK_WIDTH));
  const step = STEPS.find((one) => one >= (last - first) / most) || STEPS.at(-1);
  const [, size, unit] = UNITS.find(([least]) => step >= least);
  const found = [];
  for (let number = Math.ceil(first / step); number * step <= last; number++)
    found.push([number * step, `${number < 0 ? "" : "+"}${+((number * step) / size).toPrecision(6)} ${unit}`]);
  return found;
}

for (const picture of document.querySelectorAll(".movable")) {
  const home = { a: +picture.dataset.first, b: +picture.dataset.last };
  let view = { ...home };
  const draw = () => {
    picture.style.setProperty("--a", view.a);
    picture.style.setProperty("--k", 100 / (view.b - view.a));
    const rows = [...picture.querySelectorAll(".ticks")];
    for (const row of rows) {
      row.classList.add("drawn");
      row.replaceChildren(...ticks(view.a, view.b, rows[0].clientWidth).map(([at, text]) => {
        const one = make("i", text);
        one.style.setProperty("--s", at);
        return one;
      }));
    }
  };
  const set = (a, b) => {
    if (b - a >= 1e-3 && b - a <= 1e8) view = { a, b };
    draw();
  };
  const zoom = (factor, at = (view.a + view.b) / 2) => set(at - (at - view.a) * factor, at + (view.b - at) * factor);
  const move = (share) => set(view.a + share * (view.b - view.a), view.b + share * (view.b - view.a));
  const controls = make("div");
  controls.className = "controls";
  for (const [text, about, act] of [
    ["+", "Zoom in", () => zoom(0.5)], ["−", "Zoom out", () => zoom(2)],
    ["←", "Earlier", () => move(-0.3)], ["→", "Later", () => move(0.3)],
    ["First failure", "Show the seconds around the first failure", () => set(-15, 15)],
    ["Whole job", "Show all of the job", () => set(+picture.dataset.began, home.b)],
    ["Reset", "Show what was shown at first", () => set(home.a, home.b)],
  ]) {
    const button = make("button", text);
    button.type = "button";
    button.title = about;
    button.setAttribute("aria-label", about);
    button.addEventListener("click", act);
    controls.append(button);
  }
  picture.prepend(controls);
  draw();
  window.addEventListener("resize", draw);
  const secondsAt = (event, track) => {
    const box = track.getBoundingClientRect();
    return view.a + ((event.clientX - box.left) / box.width) * (view.b - view.a);
  };
  picture.addEventListener("wheel", (event) => {
    const track = event.target.closest(".track");
    if (!track || !(event.ctrlKey || event.shiftKey)) return; // a plain wheel scrolls the page
    event.preventDefault();
    zoom(event.deltaY + event.deltaX > 0 ? 1.25 : 0.8, secondsAt(event, track));
  }, { passive: false });
  picture.addEventListener("dblclick", (event) => {
    const track = event.target.closest(".track");
    if (track) zoom(0.4, secondsAt(event, track));
  });
  let grip = null;
  picture.addEventListener("pointerdown", (event) => {
    const track = event.target.closest(".track");
    if (track) grip = { x: event.clientX, width: track.clientWidth, ...view };
  });
  window.addEventListener("pointermove", (event) => {
    if (!grip) return;
    const by = ((grip.x - event.clientX) / grip.width) * (grip.b - grip.a);
    set(grip.a + by, grip.b + by);
  });
  for (const kind of ["pointerup", "pointercancel"]) window.addEventListener(kind, () => (grip = null));
}
