// Lays one fault on this document, once. `make(settings, met)` does it and returns what undoes it; `met` says that it
// has had an effect here, the first time.
(make, id, settings) => {
  const lay = () => {
    const faults = document[Symbol.for('harness.faults')] ??= new Map();
    if (faults.has(id)) return;
    let told = false;
    const met = () => {
      if (!told) globalThis.__harness_met?.(id)?.catch(() => {});
      told = true;
    };
    faults.set(id, null);
    const undo = make(settings, met);
    faults.set(id, () => {
      faults.set(id, null);
      undo?.();
    });
  };
  lay();
  addEventListener('DOMContentLoaded', lay); // the window of a popup may outlive its first, empty document
}
