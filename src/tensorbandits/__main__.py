"""``python -m tensorbandits`` is the command line."""

from tensorbandits.cli import main

if __name__ == "__main__":
    main()
