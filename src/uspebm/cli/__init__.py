"""The command ``uspebm``: one file per subcommand, each with its flags and what it does.

May know every room; no room knows it. Its modules import only what is light, and the function
that runs imports the rest: help is instant, and so is Ctrl-C.
"""
