"""`python -m archinfer`."""

from archinfer.cli import main

main()
