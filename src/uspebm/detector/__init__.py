"""The scikit-learn estimator: units, scores, calibrated alarms, model folders, cards, ONNX, pyod.

May know: recipes and all below them. Knows no command.
"""
