"""`python -m foveate` is the `foveate` command."""

from foveate.cli import main

if __name__ == "__main__":
    main()
