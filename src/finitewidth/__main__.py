"""`python -m finitewidth` is the command `finitewidth`."""

from finitewidth.cli import main

if __name__ == "__main__":
    main()
