// An agent that takes tasks from a run and buys what they ask for. Usage, with the run's address and a token:
//   TASKSPEC_TOKEN=... node buy-a-mouse.mjs ws://127.0.0.1:7890/bridge
import { Bridge } from "./bridge.mjs";

const url = process.argv[2] ?? "ws://127.0.0.1:7890/bridge";
const bridge = await Bridge.open(url, process.env.TASKSPEC_TOKEN ?? "", {
  agent: "buy-a-mouse 1.0",
  tell: (line) => console.error(line),
});

/** Do the steps one after the other. A step that fails ends the task. */
async function buy(task) {
  const { query, max_price, address } = task.inputs;
  const steps = [
    { act: "open", url: "http://shop.local/" },
    { act: "type", selector: "#search-box", value: query },
    { act: "press", selector: "#search-box", value: "Enter" },
    { act: "type", selector: "#filter-max-price", value: String(max_price) },
    { act: "submit", selector: "#filters", effect: "read" },
    { act: "click", selector: ".product-item .product-link >> nth=0" },
    { act: "click", selector: "#add-to-cart", effect: "write" },
    { act: "click", selector: "#checkout-button" },
    { act: "type", selector: "#address", value: address },
    { act: "select", selector: "#shipping-speed", value: "same_day" },
    { act: "select", selector: "#payment-card", value: "PM-1" },
    { act: "submit", selector: "#checkout-form", effect: "write" },
    { act: "wait", selector: "#order-id" },
  ];
  for (const step of steps) {
    const outcome = await task.act(step);
    if (task.over) return task.verdict;
    if (!outcome.passed) return task.giveUp(`${step.act} ${step.selector}: ${outcome.failure.message}`);
  }
  return task.finish();
}

for (let task; (task = await bridge.take()); ) {
  console.log(`${task.taskId}: ${task.goal}`);
  const page = await task.observe();
  console.log(`it begins at ${page.url}`);
  const verdict = await buy(task);
  console.log(`${task.taskId} ${verdict.passed ? "passed" : `failed: ${verdict.code}`}`);
}
await bridge.close();
