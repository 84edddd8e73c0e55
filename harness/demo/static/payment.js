// Shows the card that the payment iframe has saved.
const card = document.querySelector("#payment-card");

addEventListener("message", ({ origin, data }) => {
  if (origin !== location.origin || !data.last4) return;
  card.textContent = data.card;
  card.dataset.last4 = data.last4;
  document.querySelector("#payment-expiry").textContent = data.expiry;
});
