// What LeakyReLU and the mean over a pooling window of four do to an output, in one factor.
#pragma once

#include "vectors.hpp"

// LeakyReLU(y) = y * slope(y); a quarter for the mean over the pooling window.
struct Slope {
  vec positive, negative;
  explicit Slope(real s) : positive(all(real(0.25))), negative(all(real(0.25) * s)) {}
  vec operator()(vec y) const { return y > 0 ? positive : negative; }
};
