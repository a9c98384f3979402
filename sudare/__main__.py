"""`python -m sudare`: the command line."""

from sudare.entrance import main

if __name__ == "__main__":
    main()
