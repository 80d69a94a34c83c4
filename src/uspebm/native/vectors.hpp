// Numbers of type REAL, and vectors of VECTOR bytes, both given on the compiler's command line.
#pragma once

using real = REAL;
constexpr int LANES = VECTOR / sizeof(real);
using vec = real __attribute__((vector_size(VECTOR), aligned(sizeof(real)), may_alias));

static inline vec load(const real* p) { return *reinterpret_cast<const vec*>(p); }
static inline void store(real* p, vec v) { *reinterpret_cast<vec*>(p) = v; }
static inline vec all(real value) { return value - vec{}; }
static inline real sum(vec v) {
  real total = 0;
  for (int k = 0; k < LANES; k++) total += v[k];
  return total;
}
