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

const UNITS = [[1e-3, "ms"], [1, "s"], [60, "min"], [3600, "h"]];
function ticks(first, last) {
  const rough = (last - first) / 8;
  const steps = [];
  for (let power = 1e-6; power < 1e9; power *= 10) steps.push(power, 2 * power, 5 * power);
  steps.push(60, 120, 300, 600, 1200, 1800, 3600, 7200);
  const step = Math.min(...steps.filter((one) => one >= rough && (rough < 20 || one % 60 === 0)));
  const [size, unit] = UNITS.filter(([least]) => least <= step).pop() || UNITS[0];
  const found = [];
  for (let number = Math.ceil(first / step); number * step <= last; number++)
    found.push([number * step, `${number < 0 ? "" : "+"}${+((number * step) / size).toFixed(3)} ${unit}`]);
  return found;
}

for (const picture of document.querySelectorAll(".movable")) {
  const home = { a: +picture.dataset.first, b: +picture.dataset.last };
  let view = { ...home };
  const draw = () => {
    picture.style.setProperty("--a", view.a);
    picture.style.setProperty("--k", 100 / (view.b - view.a));
    for (const row of picture.querySelectorAll(".ticks"))
      row.replaceChildren(...ticks(view.a, view.b).map(([at, text]) => {
        const one = make("i", text);
        one.style.setProperty("--s", at);
        return one;
      }));
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
