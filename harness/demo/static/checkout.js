// Keeps the total in step with the chosen shipping speed.
const speed = document.querySelector("#shipping-speed");
const total = document.querySelector("#checkout-total");
const shipping = document.querySelector("#checkout-shipping");

function update() {
  const price = Number(speed.selectedOptions[0].dataset.price);
  shipping.textContent = price.toFixed(2);
  total.textContent = (Number(total.dataset.items) + price).toFixed(2);
}

speed.addEventListener("change", update);
update();
