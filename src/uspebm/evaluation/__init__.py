"""What a model is worth: densities, log Z, samples, detection figures, calibration, comparison.

May know: training and all below it. Trains nothing.
"""
