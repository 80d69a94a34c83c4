"""How long OpenMP's threads spin before they sleep, set before torch loads OpenMP.

GNU's default is to spin for milliseconds. With one other busy process on the machine, threads then
wait for each other's time slices at every barrier: training was measured to be 30 times slower on
two cores. With a short spin it is four to five times slower there, and as fast as before on an idle
machine (LOG.md has the figures). A value of the user's is kept; where torch was imported before,
this has no effect.
"""

import os

os.environ.setdefault("GOMP_SPINCOUNT", "10000")
