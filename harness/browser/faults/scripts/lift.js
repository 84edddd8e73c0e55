// Undoes a fault on this document, and keeps it from being laid again.
id => {
  const faults = document[Symbol.for('harness.faults')] ??= new Map();
  faults.get(id)?.();
  faults.set(id, null);
}
