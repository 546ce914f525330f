"""`python -m lvmdc` is the program `lvmdc`, for instance for torchrun."""

from lvmdc.cli import main

if __name__ == "__main__":
    main()
