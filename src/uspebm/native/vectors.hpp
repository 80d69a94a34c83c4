// Numbers of type REAL, given on the compiler's command line, and vectors of them.
#pragma once

using real = REAL;
constexpr int LANES = 32 / sizeof(real);
using vec = real __attribute__((vector_size(32), aligned(sizeof(real)), may_alias));

static inline vec load(const real* p) { return *reinterpret_cast<const vec*>(p); }
static inline void store(real* p, vec v) { *reinterpret_cast<vec*>(p) = v; }
static inline vec all(real value) { return value - vec{}; }
static inline real sum(vec v) {
  real total = 0;
  for (int k = 0; k < LANES; k++) total += v[k];
  return total;
}
