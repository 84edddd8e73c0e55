// Fetches the results of the search page; the spinner stays when that fails.
import { element } from "./dom.js";

const results = document.querySelector("#results");
const spinner = document.querySelector(".spinner");

function item(product) {
  const link = element("a", { class: "product-link", href: `/product/${encodeURIComponent(product.sku)}` }, product.name);
  return element(
    "li", { class: "product-item", "data-sku": product.sku },
    element("div", { class: `thumb ${product.category}`, "aria-hidden": "true" }, product.sku),
    element("h2", {}, link),
    element("p", { class: "muted" }, product.kind),
    element("span", { class: "price" }, `$${product.price.toFixed(2)}`),
  );
}

async function load() {
  const query = new URLSearchParams(location.search);
  try {
    const answer = await fetch(`/api/search?${query}`);
    if (!answer.ok) throw new Error(`HTTP ${answer.status}`);
    const { items } = await answer.json();
    results.replaceChildren(element("ul", { class: "product-grid" }, ...items.map(item)));
    document.querySelector("#result-count").textContent = `${items.length} product${items.length === 1 ? "" : "s"} found`;
    spinner.hidden = true;
  } catch (error) {
    console.error(`Failed to fetch /api/search: ${error.message}`);
  }
}

load();
