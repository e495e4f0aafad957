"""`python -m tircli.cli`, for launchers that start a module."""

from tircli.cli import main

main()
