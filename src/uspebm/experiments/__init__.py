"""One file per experiment. They set things up, measure and draw; they contain no algorithm."""
