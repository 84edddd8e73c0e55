// Opens the dialog with the card's form, also when the form came back refused.
const dialog = document.querySelector("#card-dialog");
const button = document.querySelector("#change-card");

button.addEventListener("click", () => dialog.showModal());
document.querySelector("#cancel-change").addEventListener("click", () => dialog.close());
if (dialog.dataset.open === "yes") dialog.showModal();
// Disabled until now: a click before this script ran would be lost.
button.disabled = false;
