"""`python -m logjudge.cli` is the `logjudge` command."""

from .main import main

main()
