"""`python -m logjudge.cli` is the command `logjudge`. spark-submit runs this file (`logjudge spark-main` prints it)."""

if __package__:
    from .main import main

    main()
else:
    import runpy
    import sys

    del sys.path[0]  # this folder, whose modules are no top-level ones
    sys.argv[0] = "logjudge"
    runpy.run_module("logjudge.cli", run_name="__main__")
