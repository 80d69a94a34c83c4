"""What every room needs and none is about: checks, whole files, progress, plots, draws, extras.

May be known by all; knows ``types`` only. Records, points and densities come as plain values.
"""
