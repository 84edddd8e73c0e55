"use strict";
(() => {
  const find = (selector) => document.querySelector(selector);
  const kept = {
    get: () => { try { return localStorage.getItem("harness-theme") || ""; } catch { return ""; } },
    set: (value) => { try { localStorage.setItem("harness-theme", value); } catch { /* a page from disk may not keep */ } },
  };

  const theme = find("#theme");
  const dress = (name) => {
    if (name === "light" || name === "dark") document.documentElement.dataset.theme = name;
    else delete document.documentElement.dataset.theme;
  };
  theme.value = kept.get();
  dress(theme.value);
  theme.addEventListener("change", () => { dress(theme.value); kept.set(theme.value); });
  theme.parentElement.hidden = false;

  for (const row of document.querySelectorAll("details.row")) {
    const picture = row.querySelector(".shot, .actual img");
    if (!picture) continue;
    const small = document.createElement("img");
    small.src = picture.src;
    small.alt = "";
    row.querySelector(".thumb").append(small);
    if (picture.matches(".shot")) picture.addEventListener("click", () => picture.classList.toggle("whole"));
  }

  const openTarget = () => {
    const asked = location.hash && document.getElementById(location.hash.slice(1));
    const row = asked && (asked.matches("details") ? asked : asked.matches(".cause, .cell") && asked.querySelector("details.row"));
    if (row) row.open = true;
  };
  addEventListener("hashchange", openTarget);
  openTarget();

  for (const yaml of document.querySelectorAll("pre.yaml")) {
    if (!navigator.clipboard) break;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.textContent = "Copy";
    button.setAttribute("aria-label", "Copy the proposed change");
    button.addEventListener("click", async () => {
      try { await navigator.clipboard.writeText(yaml.textContent); button.textContent = "Copied"; }
      catch { getSelection().selectAllChildren(yaml); button.textContent = "Selected"; }
    });
    yaml.after(button);
  }

  for (const group of document.querySelectorAll(".pictures")) {
    const [before, after] = [group.querySelector(".expected img"), group.querySelector(".actual img")];
    if (!before || !after) continue;
    const [figure, text, layers, slider] = ["figure", "figcaption", "div", "input"].map((name) => document.createElement(name));
    figure.className = "over";
    text.textContent = "expected on the left of the slider, actual on its right";
    layers.append(before.cloneNode(), after.cloneNode());
    slider.type = "range";
    slider.setAttribute("aria-label", `How much of the expected picture is shown, in percent: ${group.getAttribute("aria-label")}`);
    slider.addEventListener("input", () => layers.style.setProperty("--part", `${slider.value}%`));
    figure.append(text, layers, slider);
    group.append(figure);
  }

  const opened = () => {
    for (const each of document.querySelectorAll("details:not([open])")) { each.open = true; each.dataset.printed = ""; }
  };
  addEventListener("beforeprint", opened);
  addEventListener("afterprint", () => {
    for (const each of document.querySelectorAll("details[data-printed]")) { each.open = false; delete each.dataset.printed; }
  });

  const body = find("table.tasks tbody");
  if (!body) return;
  const [words, state, shown] = [find("#words"), find("#state"), find("#shown")];
  const drawn = [...body.rows].map((row) => ({
    row: () => row,
    text: row.textContent.toLowerCase(),
    status: row.className,
    retried: row.querySelector(".retries").textContent !== "",
    healed: row.querySelector(".note").textContent.startsWith("healed"),
    value: (column) => row.cells[column].dataset.value ?? row.cells[column].textContent,
  }));
  const pattern = body.rows[0].cloneNode(true);
  const made = ({ texts, status, cause }) => {
    const row = pattern.cloneNode(true);
    row.className = status;
    texts.forEach((text, column) => { row.cells[column].textContent = text; });
    if (cause !== null) {
      const link = document.createElement("a");
      link.href = `#cause-${cause + 1}`;
      link.textContent = "cause";
      row.lastElementChild.append(" ", link);
    }
    return row;
  };
  const later = JSON.parse(find("#rest")?.textContent ?? "[]").map((each) => ({
    ...each,
    row: () => made(each),
    text: each.texts.join(" ").toLowerCase(),
    value: (column) => ({ 2: each.start, 3: each.seconds })[column] ?? each.texts[column],
  }));
  const rows = [...drawn, ...later];
  const is = (each, wanted) => !wanted || each.status === wanted || (wanted === "retried" && each.retried) || (wanted === "healed" && each.healed);
  const PAGE = 100;
  const [pages, back, next, place] = [find(".pages"), find("#back"), find("#next"), find("#place")];
  let first = 0;
  const show = () => {
    const asked = words.value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = rows.filter((each) => is(each, state.value) && asked.every((word) => each.text.includes(word)));
    first = Math.max(0, Math.min(first, Math.floor((found.length - 1) / PAGE) * PAGE));
    const last = Math.min(found.length, first + PAGE);
    body.replaceChildren(...found.slice(first, last).map((each) => each.row()));
    const all = `${rows.length} task${rows.length === 1 ? "" : "s"}`;
    shown.textContent = found.length === rows.length ? all : `${found.length} of ${all}`;
    pages.hidden = found.length <= PAGE;
    place.textContent = `${first + 1} to ${last} of ${found.length}`;
    [back.disabled, next.disabled] = [first === 0, last === found.length];
  };
  const filter = () => { first = 0; show(); };
  back.addEventListener("click", () => { first -= PAGE; show(); });
  next.addEventListener("click", () => { first += PAGE; show(); });
  words.addEventListener("input", filter);
  state.addEventListener("change", filter);
  words.form.addEventListener("submit", (event) => event.preventDefault());
  words.form.hidden = false;
  filter();

  for (const head of document.querySelectorAll("th[data-sort]")) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      for (const other of head.parentElement.cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const value = (each) => each.value(head.cellIndex);
      const compare = head.dataset.sort === "number"
        ? (a, b) => (parseFloat(value(a)) || 0) - (parseFloat(value(b)) || 0)
        : (a, b) => value(a).localeCompare(value(b), "en", { numeric: true });
      rows.sort((a, b) => (down ? compare(b, a) : compare(a, b)));
      filter();
    });
  }
})();
