"""How long OpenMP's threads spin before they sleep, set before torch loads OpenMP.

GNU's default is to spin for milliseconds. With one other busy process on the machine, threads then
wait for each other's time slices at every barrier: training was measured to be 30 times slower on
two cores. A short spin costs nothing on an idle machine, and a busy one slows training two- to
fivefold. A value of the user's is kept; where torch was imported before, this has no effect.
"""

import os

os.environ.setdefault("GOMP_SPINCOUNT", "10000")
