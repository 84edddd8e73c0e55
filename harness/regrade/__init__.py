"""`harness regrade`: changed criteria against recorded evidence, without a browser."""
