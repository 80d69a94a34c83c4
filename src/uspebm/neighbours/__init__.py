"""Who is closer than the spacing ε: exact search, lists, sketches; in torch or in compiled code.

May know: compiled code, and below it energies, domains and types. Knows no phase.
"""
