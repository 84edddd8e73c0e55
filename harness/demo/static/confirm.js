// Asks once more before the form of a dialog's button is sent.
const dialog = document.querySelector("#confirm-dialog");
const button = document.querySelector("#deactivate-button");

button.addEventListener("click", () => {
  if (button.form.reportValidity()) dialog.showModal();
});
document.querySelector("#cancel-deactivate").addEventListener("click", () => dialog.close());
// Disabled until now: a click before this script ran would be lost.
button.disabled = false;
