"""Files and image sets to points: readers, writers, image sets, and how arrays become tensors.

May be known by all; knows ``support`` and ``types`` only, and not what becomes of the points.
"""
