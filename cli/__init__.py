"""The command line: a module a command, imported when it is called."""
