// Polls the state of a return.
const state = document.querySelector("#return-state");
const refund = document.querySelector("#refund-amount");
const POLL_MS = 300;

async function poll() {
  try {
    const answer = await fetch(`/api/returns/${encodeURIComponent(state.dataset.return)}`);
    if (answer.ok) {
      const now = await answer.json();
      state.textContent = now.state;
      state.className = `badge ${now.state}`;
      refund.textContent = Number(now.refund).toFixed(2);
    }
  } finally {
    setTimeout(poll, POLL_MS);
  }
}

setTimeout(poll, POLL_MS);
