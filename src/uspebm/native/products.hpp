// Products of matrices whose sides are small enough for a core's cache.
#pragma once

#include "vectors.hpp"

constexpr int PANEL = 2 * LANES;  // columns that one micro-kernel computes
// Rows of two vectors that the registers hold beside what is read: of 16 registers, or of 32.
constexpr int TALLEST = VECTOR == 64 ? 12 : 6;

// Matrix product: C[rows, N] = A[rows, K] P, with P packed in panels [N / PANEL][K][PANEL].

template <int ROWS>
static inline void micro_kernel(const real* A, const real* P, real* C, int K, int N) {
  vec c[ROWS][2] = {};
  for (int k = 0; k < K; k++, P += PANEL) {
    const vec left = load(P), right = load(P + LANES);
#pragma GCC unroll 12
    for (int r = 0; r < ROWS; r++) {
      const vec a = all(A[r * K + k]);
      c[r][0] += a * left;
      c[r][1] += a * right;
    }
  }
#pragma GCC unroll 12
  for (int r = 0; r < ROWS; r++) {
    store(C + r * N, c[r][0]);
    store(C + r * N + LANES, c[r][1]);
  }
}

template <int ROWS = TALLEST>
static inline void micro(int height, const real* A, const real* P, real* C, int K, int N) {
  if constexpr (ROWS > 1)
    if (height < ROWS) return micro<ROWS - 1>(height, A, P, C, K, N);
  micro_kernel<ROWS>(A, P, C, K, N);
}

static void multiply(const real* A, const real* P, real* C, int rows, int K, int N) {
  const int strips = (rows + TALLEST - 1) / TALLEST;
  for (int panel = 0; panel < N / PANEL; panel++, P += PANEL * K) {
    for (int strip = 0, r = 0; strip < strips; strip++) {
      const int height = (rows - r + strips - strip - 1) / (strips - strip);
      micro(height, A + r * K, P, C + r * N + PANEL * panel, K, N);
      r += height;
    }
  }
}

// C[K, N] += A[rows, K]' B[rows, N]: what gradients of weights are made of.

template <int TALL>
static inline void accumulate_kernel(const real* A, const real* B, real* C, int rows, int K, int N) {
  vec c[TALL][2] = {};
  for (int r = 0; r < rows; r++, A += K, B += N) {
    const vec left = load(B), right = load(B + LANES);
#pragma GCC unroll 12
    for (int k = 0; k < TALL; k++) {
      const vec a = all(A[k]);
      c[k][0] += a * left;
      c[k][1] += a * right;
    }
  }
#pragma GCC unroll 12
  for (int k = 0; k < TALL; k++) {
    store(C + k * N, load(C + k * N) + c[k][0]);
    store(C + k * N + LANES, load(C + k * N + LANES) + c[k][1]);
  }
}

template <int TALL = TALLEST>
static inline void accumulated(int height, const real* A, const real* B, real* C, int rows, int K,
                               int N) {
  if constexpr (TALL > 1)
    if (height < TALL) return accumulated<TALL - 1>(height, A, B, C, rows, K, N);
  accumulate_kernel<TALL>(A, B, C, rows, K, N);
}

static void accumulate(const real* A, const real* B, real* C, int rows, int K, int N) {
  const int strips = (K + TALLEST - 1) / TALLEST;
  for (int strip = 0, k = 0; strip < strips; strip++) {
    const int height = (K - k + strips - strip - 1) / (strips - strip);
    for (int n = 0; n < N; n += PANEL)
      accumulated(height, A + k, B + n, C + k * N + n, rows, K, N);
    k += height;
  }
}
