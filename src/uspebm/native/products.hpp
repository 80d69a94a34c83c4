// Products of matrices whose sides are small enough for a core's cache.
#pragma once

#include "vectors.hpp"

constexpr int PANEL = 2 * LANES;  // columns that one micro-kernel computes

// Matrix product: C[rows, N] = A[rows, K] P, with P packed in panels [N / PANEL][K][PANEL].

template <int ROWS>
static inline void micro_kernel(const real* A, const real* P, real* C, int K, int N) {
  vec c[ROWS][2] = {};
  for (int k = 0; k < K; k++, P += PANEL) {
    const vec left = load(P), right = load(P + LANES);
#pragma GCC unroll 6
    for (int r = 0; r < ROWS; r++) {
      const vec a = all(A[r * K + k]);
      c[r][0] += a * left;
      c[r][1] += a * right;
    }
  }
#pragma GCC unroll 6
  for (int r = 0; r < ROWS; r++) {
    store(C + r * N, c[r][0]);
    store(C + r * N + LANES, c[r][1]);
  }
}

static void multiply(const real* A, const real* P, real* C, int rows, int K, int N) {
  const int strips = (rows + 5) / 6;  // six rows of two vectors fill the sixteen registers
  for (int panel = 0; panel < N / PANEL; panel++, P += PANEL * K) {
    for (int strip = 0, r = 0; strip < strips; strip++) {
      const int height = (rows - r + strips - strip - 1) / (strips - strip);
      const real* a = A + r * K;
      real* c = C + r * N + PANEL * panel;
      switch (height) {
        case 6: micro_kernel<6>(a, P, c, K, N); break;
        case 5: micro_kernel<5>(a, P, c, K, N); break;
        case 4: micro_kernel<4>(a, P, c, K, N); break;
        case 3: micro_kernel<3>(a, P, c, K, N); break;
        case 2: micro_kernel<2>(a, P, c, K, N); break;
        default: micro_kernel<1>(a, P, c, K, N);
      }
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
#pragma GCC unroll 6
    for (int k = 0; k < TALL; k++) {
      const vec a = all(A[k]);
      c[k][0] += a * left;
      c[k][1] += a * right;
    }
  }
#pragma GCC unroll 6
  for (int k = 0; k < TALL; k++) {
    store(C + k * N, load(C + k * N) + c[k][0]);
    store(C + k * N + LANES, load(C + k * N + LANES) + c[k][1]);
  }
}

static void accumulate(const real* A, const real* B, real* C, int rows, int K, int N) {
  for (int k = 0; k < K;) {
    const int height = K - k >= 6 ? 6 : K - k >= 4 ? 4 : K - k >= 2 ? 2 : 1;
    for (int n = 0; n < N; n += PANEL) {
      real* c = C + k * N + n;
      switch (height) {
        case 6: accumulate_kernel<6>(A + k, B + n, c, rows, K, N); break;
        case 4: accumulate_kernel<4>(A + k, B + n, c, rows, K, N); break;
        case 2: accumulate_kernel<2>(A + k, B + n, c, rows, K, N); break;
        default: accumulate_kernel<1>(A + k, B + n, c, rows, K, N);
      }
    }
    k += height;
  }
}
