"""Runs, models and comparisons as pages: one HTML file each, which needs nothing beside it.

A page is a value (``page.py``); builders make one of what a folder holds; ``html.py`` writes it.
May know: detector and all below. Knows no experiment and no command, and trains nothing.
"""
