// The tools that the shop offers to agents (WebMCP). Each does what a customer does with the same forms.
const PARSER = new DOMParser();

class Refused extends Error {}

function answer(structuredContent) {
  return { content: [{ type: "text", text: JSON.stringify(structuredContent) }], structuredContent };
}

async function fetched(url, options) {
  const response = await fetch(url, options);
  if (!response.ok) throw new Refused(`The shop answered ${response.status} to ${url}.`);
  return response;
}

async function page(url, fields) {
  const options = fields ? { method: "POST", body: new URLSearchParams(fields) } : {};
  return PARSER.parseFromString(await (await fetched(url, options)).text(), "text/html");
}

function text(document, selector) {
  return document.querySelector(selector)?.textContent.trim() ?? "";
}

async function searchProducts({ query = "", max_price: limit = "" }) {
  const response = await fetched(`/api/search?${new URLSearchParams({ q: query, max_price: limit })}`);
  return await response.json();
}

async function addToCart({ sku, quantity = 1 }) {
  const cart = await page("/cart/items", { sku, qty: quantity });
  document.querySelector("#cart-count").textContent = text(cart, "#cart-count");
  return { total: Number(text(cart, "#cart-total")), quantity: Number(text(cart, "#cart-count")) };
}

async function placeOrder({ address, shipping_speed: speed, card }) {
  const form = (await page("/checkout")).querySelector("#checkout-form");
  if (!form) throw new Refused("Your cart is empty.");
  const fields = Object.fromEntries(new FormData(form));
  const order = await page("/checkout", { ...fields, address: address ?? fields.address, shipping_speed: speed, card });
  if (!order.querySelector("#order-id")) throw new Refused(text(order, "[role=alert]"));
  document.querySelector("#cart-count").textContent = "0";
  return { id: text(order, "#order-id"), status: text(order, "#order-status"), total: Number(text(order, "#order-total")) };
}

const TOOLS = [
  {
    name: "search_products",
    description: "Find products by words and price, the cheapest first.",
    inputSchema: {
      type: "object",
      properties: { query: { type: "string" }, max_price: { type: "number", description: "In dollars." } },
      required: ["query"],
    },
    annotations: { readOnlyHint: true },
    act: searchProducts,
  },
  {
    name: "add_to_cart",
    description: "Put a product into the cart.",
    inputSchema: {
      type: "object",
      properties: { sku: { type: "string" }, quantity: { type: "integer", minimum: 1, maximum: 10 } },
      required: ["sku"],
    },
    act: addToCart,
  },
  {
    name: "place_order",
    description: "Order what is in the cart, and pay it with a card of the customer.",
    inputSchema: {
      type: "object",
      properties: {
        address: { type: "string", description: "Street and number; without it, the customer's own." },
        shipping_speed: { type: "string", enum: ["standard", "same_day"] },
        card: { type: "string", description: "The shop's name for the card, such as PM-1." },
      },
      required: ["shipping_speed", "card"],
    },
    annotations: { consequentialHint: true },
    act: placeOrder,
  },
];

for (const { act, ...tool } of TOOLS) {
  const execute = async (given) => {
    try {
      return answer(await act(given));
    } catch (error) {
      if (error instanceof Refused) return { isError: true, content: [{ type: "text", text: error.message }] };
      throw error;
    }
  };
  document.modelContext.registerTool({ ...tool, execute });
}
