// The appointment calendar. data-widget chooses its markup: "grid" (buttons) or "table" (cells).
import { element } from "./dom.js";

const calendar = document.querySelector("#calendar");
const slots = document.querySelector("#slots");
const day = document.querySelector("#date-value");
const time = document.querySelector("#time-value");
const book = document.querySelector("#book-appointment");
const WEEKDAYS = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
let month = calendar.dataset.month;

const utc = (iso) => new Date(`${iso}T00:00:00Z`);
const readable = (iso, format) => utc(iso).toLocaleDateString("en-US", { timeZone: "UTC", ...format });
const longDate = (iso) => readable(iso, { month: "long", day: "numeric", year: "numeric" });
const dayOfMonth = (iso) => String(Number(iso.slice(8)));
const gapBefore = (days) => (utc(days[0].date).getUTCDay() + 6) % 7;

function grid(days) {
  const heads = WEEKDAYS.map((name) => element("span", { class: "weekday" }, name));
  const gaps = Array.from({ length: gapBefore(days) }, () => element("span", {}));
  const buttons = days.map(({ date, open }) => {
    const names = { class: "calendar-date", id: `calendar-day-${date}`, "data-date": date, "aria-label": longDate(date) };
    const button = element("button", { type: "button", "aria-pressed": "false", ...names }, dayOfMonth(date));
    button.disabled = !open;
    button.addEventListener("click", () => choose(date));
    return button;
  });
  return element("div", { class: "calendar-grid", role: "group", "aria-label": "Days" }, ...heads, ...gaps, ...buttons);
}

function cell({ date, open }) {
  const names = { "data-date": date, "aria-label": longDate(date), "aria-disabled": String(!open) };
  const node = element("td", { role: "gridcell", "aria-selected": "false", ...names }, dayOfMonth(date));
  if (open) {
    node.tabIndex = 0;
    node.addEventListener("click", () => choose(date));
    node.addEventListener("keydown", (event) => { if (event.key === "Enter") choose(date); });
  }
  return node;
}

function table(days) {
  const cells = [...Array.from({ length: gapBefore(days) }, () => element("td", {})), ...days.map(cell)];
  const rows = [];
  while (cells.length) rows.push(element("tr", {}, ...cells.splice(0, 7)));
  const head = element("tr", {}, ...WEEKDAYS.map((name) => element("th", { scope: "col" }, name)));
  const parts = [element("thead", {}, head), element("tbody", {}, ...rows)];
  return element("table", { class: "calendar-table", role: "grid", "aria-label": "Days" }, ...parts);
}

async function show(wanted) {
  month = wanted;
  const answer = await fetch(`/api/calendar?month=${wanted}`);
  const { days } = await answer.json();
  if (month !== wanted) return;
  document.querySelector("#calendar-month").textContent = readable(`${month}-01`, { month: "long", year: "numeric" });
  calendar.replaceChildren(calendar.dataset.widget === "table" ? table(days) : grid(days));
}

async function choose(date) {
  const mark = calendar.dataset.widget === "table" ? "aria-selected" : "aria-pressed";
  for (const node of calendar.querySelectorAll("[data-date]")) node.setAttribute(mark, String(node.dataset.date === date));
  day.value = date;
  time.value = "";
  book.disabled = true;
  document.querySelector("#selected-date").textContent = longDate(date);
  const answer = await fetch(`/api/slots?date=${date}`);
  const { times } = await answer.json();
  if (day.value === date) slots.replaceChildren(...times.map(slot));
}

function slot(value) {
  const names = { type: "button", class: "time-slot", "data-time": value, "aria-pressed": "false" };
  const button = element("button", names, value);
  button.addEventListener("click", () => {
    for (const other of slots.children) other.setAttribute("aria-pressed", String(other === button));
    time.value = value;
    book.disabled = false;
  });
  return button;
}

function move(by) {
  const [year, number] = month.split("-").map(Number);
  const moved = new Date(Date.UTC(year, number - 1 + by, 1));
  return show(moved.toISOString().slice(0, 7));
}

for (const [selector, by] of [["#previous-month", -1], ["#next-month", 1]]) {
  const button = document.querySelector(selector);
  button.addEventListener("click", () => move(by));
  // Disabled until now: a click before this script ran would be lost.
  button.disabled = false;
}
show(month);
