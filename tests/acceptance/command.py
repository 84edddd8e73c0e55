"""The command `harness`, as a module."""

from harness.cli import main

if __name__ == "__main__":
    main()
