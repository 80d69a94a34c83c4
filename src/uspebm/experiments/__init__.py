"""The paper's figures and tables, a file each, and what images they are judged on, as values.

They set up recipes, measure and draw; no algorithm lives here. May know: report, detector and all
below. Known by the commands alone.
"""
