"use strict";

// Text from environments and models goes into the page as text nodes only, never as markup.
function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "class") made.className = value;
    else if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

function shortNumber(value) {
  return Number.isFinite(value) ? String(Number(value.toPrecision(3))) : String(value);
}

// A picture is drawn when it scrolls into view: all of them at once would keep the page busy.
function drawFigures() {
  const figures = new Map(JSON.parse(document.getElementById("figures").textContent).map((one) => [one.id, one.figure]));
  const observer = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries) {
      if (!isIntersecting) continue;
      observer.unobserve(target);
      const { data, layout } = figures.get(target.id);
      Plotly.newPlot(target, data, layout, { responsive: true, displayModeBar: false });
    }
  }, { rootMargin: "300px" });
  document.querySelectorAll(".plot").forEach((plot) => observer.observe(plot));
}

async function unpacked(run, iteration) {
  const packed = atob(document.getElementById(`trajectories-${run}-${iteration}`).textContent.trim());
  const bytes = Uint8Array.from(packed, (character) => character.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  const text = await new Response(stream).text();
  return text.split("\n").filter(Boolean).map((line) => JSON.parse(line));
}

// The picture of a step; null where it has none, or where it was too much for the page.
function picture(step) {
  const packed = step.image === undefined ? null : document.getElementById(`image-${step.image}`);
  if (packed === null) return null;
  return element("img", { src: `data:image/png;base64,${packed.textContent.trim()}`, alt: "what the environment showed" });
}

const NOT_CREDIT = new Set(["observation", "image", "anchor_state", "response", "action", "invalid_reason", "reward", "anchor", "anchor_size", "in_loss"]);

function hasSignal(members) {
  return members.some((record) => record.steps.some((step) => step.in_loss));
}

function groupOption(id, members) {
  const won = members.filter((record) => record.won).length;
  return element("option", { value: String(id) }, `${id}: ${won} of ${members.length} won${hasSignal(members) ? "" : ", no signal"}`);
}

class Inspector {
  constructor(root) {
    this.run = root.dataset.run;
    for (const name of ["iteration", "group", "task", "members", "steps", "siblings"]) {
      this[name] = root.querySelector(`.${name}`);
    }
    this.noSiblings = [...this.siblings.childNodes];
    this.iteration.addEventListener("change", () => this.showIteration());
    this.group.addEventListener("change", () => this.showGroup());
    this.iteration.selectedIndex = this.iteration.options.length - 1;
    this.showIteration();
  }

  async showIteration() {
    const asked = this.iteration.value;
    const records = await unpacked(this.run, asked);
    if (asked !== this.iteration.value) return;  // another one was chosen meanwhile
    this.records = records;
    const groups = Map.groupBy(records, (record) => record.group_id);
    this.group.replaceChildren(...[...groups].map(([id, members]) => groupOption(id, members)));
    // Where all are alike there is no credit to see.
    this.group.selectedIndex = Math.max(0, [...groups.values()].findIndex(hasSignal));
    this.showGroup();
  }

  showGroup() {
    this.shown = this.records.filter((record) => String(record.group_id) === this.group.value);
    const { task, task_id: taskId } = this.shown[0];
    this.task.textContent = `Task ${taskId ?? task ?? ""}`;
    this.largest = {};  // of a group, so that bars can be compared between its trajectories
    for (const step of this.shown.flatMap((record) => record.steps)) {
      for (const name of Object.keys(step).filter((key) => !NOT_CREDIT.has(key))) {
        this.largest[name] = Math.max(this.largest[name] ?? 1e-9, Math.abs(step[name]));
      }
    }
    this.members.replaceChildren(...this.shown.map((record, index) => this.memberButton(record, index)));
    this.siblings.replaceChildren(...this.noSiblings);
    this.showMember(0);
  }

  memberButton(record, index) {
    const who = record.agent === null ? `Trajectory ${record.member}` : `Trajectory ${record.member}, ${record.agent}`;
    const total = record.steps.reduce((sum, step) => sum + step.advantage, 0);
    return element(
      "button",
      { role: "option", onclick: () => this.showMember(index) },
      who,
      " ",
      element("span", { class: record.won ? "won" : "lost" }, record.ending ?? ""),
      element("small", {}, `${record.steps.length} steps, return ${shortNumber(record.return)}`),
      element("small", {}, `mean advantage ${shortNumber(total / record.steps.length)}`),
    );
  }

  showMember(index, marked = null) {
    [...this.members.children].forEach((button, i) => button.setAttribute("aria-selected", String(i === index)));
    const cards = this.shown[index].steps.map((step, t) => this.stepCard(step, t));
    this.steps.replaceChildren(...cards);
    if (marked !== null) {
      cards[marked].classList.add("marked");
      cards[marked].scrollIntoView({ block: "center" });
    }
  }

  stepCard(step, t) {
    const grouped = step.anchor !== undefined;
    const badge = !grouped ? null : step.anchor_size === 1
      ? element("span", { class: "badge" }, "alone with its anchor state")
      : element("button", { class: "badge", onclick: () => this.showSiblings(step) }, `step group of ${step.anchor_size}`);
    return element(
      "div",
      { class: "step" },
      element(
        "h3",
        {},
        `Step ${t}`,
        element("span", {}, `action: ${step.action ?? "none"}`),
        step.invalid_reason === null ? null : element("span", { class: "lost" }, `invalid: ${step.invalid_reason}`),
        element("span", {}, `reward ${shortNumber(step.reward)}`),
        badge,
        step.in_loss ? null : element("span", { class: "badge" }, "not in the loss"),
      ),
      picture(step),
      element("pre", { class: "observation" }, step.observation),
      element("pre", { class: "response" }, step.response),
      this.creditBars(step),
    );
  }

  creditBars(step) {
    const rows = Object.keys(step).filter((key) => !NOT_CREDIT.has(key)).flatMap((name) => {
      const half = 50 * Math.abs(step[name]) / this.largest[name];
      const bar = element("i", { class: step[name] < 0 ? "minus" : "plus" });
      bar.style.left = `${step[name] < 0 ? 50 - half : 50}%`;
      bar.style.width = `${half}%`;
      return [element("span", {}, name.replaceAll("_", " ")), element("div", { class: "bar" }, bar), element("span", {}, shortNumber(step[name]))];
    });
    return element("div", { class: "credit" }, ...rows);
  }

  showSiblings(step) {
    const names = Object.keys(step).filter((key) => !NOT_CREDIT.has(key));
    const rows = this.shown.flatMap((record, index) => record.steps
      .map((other, t) => ({ record, index, other, t }))
      .filter(({ other }) => other.anchor === step.anchor));
    const heads = ["member", "step", "action"].map((name) => element("th", {}, name));
    const numbers = names.map((name) => element("th", { class: "number" }, name.replaceAll("_", " ")));
    const shown = [
      element("h3", {}, `${rows.length} steps from one anchor state`),
      picture(step),
      element("pre", { class: "observation" }, step.anchor_state ?? step.observation),
      element("table", {}, element("tr", {}, ...heads, ...numbers), ...rows.map(({ record, index, other, t }) => element(
        "tr",
        {},
        element("td", { class: record.won ? "won" : "lost" }, String(record.member)),
        element("td", {}, element("button", { class: "badge", onclick: () => this.showMember(index, t) }, String(t))),
        element("td", {}, other.action ?? "none"),
        ...names.map((name) => element("td", { class: "number" }, shortNumber(other[name]))),
      ))),
    ];
    this.siblings.replaceChildren(...shown.filter((child) => child !== null));
    this.siblings.scrollIntoView({ block: "nearest" });  // on a narrow screen it is below all steps
  }
}

drawFigures();
window.inspectors = [...document.querySelectorAll(".of-run")].map((root) => new Inspector(root));
