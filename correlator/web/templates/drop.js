"use strict";
// Dropped files and folders, which no form can send by itself; without scripts the two fields do the same.
const form = document.getElementById("diagnose");
const area = document.getElementById("drop");
const list = document.getElementById("dropped");
const button = form.querySelector("button");
const state = document.getElementById("state");
const SHOWN = 20;
const dropped = []; // { path, file }

const fileOf = (entry) => new Promise((resolve, reject) => entry.file(resolve, reject));
const batchOf = (reader) => new Promise((resolve, reject) => reader.readEntries(resolve, reject));

async function collect(entry) {
  if (entry.isFile) {
    dropped.push({ path: entry.fullPath.replace(/^\//, ""), file: await fileOf(entry) });
    return;
  }
  const reader = entry.createReader();
  for (let batch = await batchOf(reader); batch.length; batch = await batchOf(reader)) {
    for (const inner of batch) await collect(inner);
  }
}

function show() {
  const names = dropped.slice(0, SHOWN).map(({ path }) => path);
  if (dropped.length > SHOWN) names.push(`and ${dropped.length - SHOWN} more`);
  list.replaceChildren(...names.map((name) => {
    const item = document.createElement("li");
    item.textContent = name;
    return item;
  }));
}

for (const kind of ["dragenter", "dragover"]) {
  area.addEventListener(kind, (event) => {
    event.preventDefault();
    area.classList.add("over");
  });
}
area.addEventListener("dragleave", () => area.classList.remove("over"));
area.addEventListener("drop", async (event) => {
  event.preventDefault();
  area.classList.remove("over");
  // All are taken now: behind the first wait the list of what was dropped is empty.
  const items = [...event.dataTransfer.items].filter((item) => item.kind === "file");
  const taken = items.map((item) => ({ entry: item.webkitGetAsEntry(), file: item.getAsFile() }));
  button.disabled = true;
  try {
    for (const { entry, file } of taken) {
      if (entry) await collect(entry);
      else if (file) dropped.push({ path: file.name, file });
    }
  } catch {
    state.textContent = "Not all of it could be read.";
  } finally {
    button.disabled = false;
    show();
  }
});

form.addEventListener("submit", async (event) => {
  const data = new FormData(form);
  for (const { path, file } of dropped) data.append("files", file, path);
  const bytes = [...data.values()].reduce((sum, value) => sum + (value.size ?? value.length), 0);
  if (bytes > form.dataset.limit * 2 ** 20) {
    event.preventDefault();
    state.textContent = `More than ${form.dataset.limit} MiB. Name the folder when the server is started instead.`;
    return;
  }
  state.textContent = "Sending …";
  if (!dropped.length) return; // the browser sends it
  event.preventDefault();
  try {
    const answer = await fetch(form.action, { method: "POST", body: data });
    if (answer.redirected) location.assign(answer.url);
    else {
      const said = new DOMParser().parseFromString(await answer.text(), "text/html");
      state.textContent = (said.querySelector(".note") ?? said.body).textContent;
    }
  } catch {
    state.textContent = "The server did not answer.";
  }
});
