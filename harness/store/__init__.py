"""Where a run keeps its results beyond its machine (`--task-store URL`): a folder, or any storage that fsspec knows."""

from harness.store.place import Store, StoreError, StoreUnusable, find_stores, open_store

__all__ = ["Store", "StoreError", "StoreUnusable", "find_stores", "open_store"]
