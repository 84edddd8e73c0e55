"""Where a run keeps its results beyond its machine (`--task-store URL`): a folder, or any storage that fsspec knows."""

from harness.store.place import SCHEME, Store, StoreError, StoreUnusable, find_stores, local_path, open_store, shown_url

__all__ = ["SCHEME", "Store", "StoreError", "StoreUnusable", "find_stores", "local_path", "open_store", "shown_url"]
