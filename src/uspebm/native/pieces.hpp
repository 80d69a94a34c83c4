// How much work is taken at a time.
#pragma once

// Items per piece: pieces of equal size, at most `most` items and a multiple of the threads in
// number, so that none waits.
static int piece_size(int items, int most, int threads) {
  int pieces = (items + most - 1) / most;
  pieces += (threads - pieces % threads) % threads;
  return (items + pieces - 1) / pieces;
}
