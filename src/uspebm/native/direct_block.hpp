// [3x3 convolution, LeakyReLU, 2x2 average pooling] of few input channels, done directly.
#pragma once

#include <algorithm>
#include <cstring>

#include "slope.hpp"
#include "vectors.hpp"

template <int C, int O, int H, int W>
struct DirectBlock {
  static constexpr int TH = H / 2, TW = W / 2, PH = 2 * TH + 2, PW = 2 * TW + 2;
  static constexpr int SLOPES = TH * TW * 4 * O;

  static void pad(const real* x, real* padded) {
    memset(padded, 0, sizeof(real) * C * PH * PW);
    for (int c = 0; c < C; c++)
      for (int i = 0; i < std::min(H, PH - 1); i++)
        memcpy(padded + (c * PH + i + 1) * PW + 1, x + (c * H + i) * W,
               sizeof(real) * std::min(W, PW - 1));
  }

  // weight[C][9][O]; out is the padded input of the next block, `stride` rows of it wide.
  static void forward(const real* x, const real* weight, const real* bias, Slope slope, real* out,
                      int stride, real* slopes) {
    static thread_local real padded[C * PH * PW];
    pad(x, padded);
    for (int o = 0; o < O; o += LANES)
      for (int h = 0; h < TH; h++)
        for (int w = 0; w < TW; w++) {
          const vec b = load(bias + o);
          vec y[4] = {b, b, b, b}, pooled = {};
          for (int c = 0; c < C; c++) {
            const real* p = padded + (c * PH + 2 * h) * PW + 2 * w;
#pragma GCC unroll 3
            for (int i = 0; i < 3; i++)
#pragma GCC unroll 3
              for (int j = 0; j < 3; j++) {
                const vec k = load(weight + (c * 9 + 3 * i + j) * O + o);
                y[0] += p[PW * i + j] * k;
                y[1] += p[PW * i + j + 1] * k;
                y[2] += p[PW * (i + 1) + j] * k;
                y[3] += p[PW * (i + 1) + j + 1] * k;
              }
          }
          for (int q = 0; q < 4; q++) {
            const vec s = slope(y[q]);
            pooled += y[q] * s;
            store(slopes + ((h * TW + w) * 4 + q) * O + o, s);
          }
          store(out + ((h + 1) * stride + w + 1) * O + o, pooled);
        }
  }

  // Adds to dweight[C][9][O] and dbias[O].
  static void weights(const real* x, const real* gradient, int stride, const real* slopes,
                      real* dweight, real* dbias) {
    static thread_local real padded[C * PH * PW];
    pad(x, padded);
    for (int o = 0; o < O; o += LANES)
      for (int c = 0; c < C; c++) {
        vec d[9] = {}, total = {};
        for (int h = 0; h < TH; h++)
          for (int w = 0; w < TW; w++) {
            const real* p = padded + (c * PH + 2 * h) * PW + 2 * w;
            const vec g = load(gradient + ((h + 1) * stride + w + 1) * O + o);
            const real* s = slopes + (h * TW + w) * 4 * O + o;
#pragma GCC unroll 4
            for (int q = 0; q < 4; q++) {
              const vec dy = g * load(s + q * O);
              total += dy;
#pragma GCC unroll 9
              for (int t = 0; t < 9; t++) d[t] += p[PW * (q / 2 + t / 3) + q % 2 + t % 3] * dy;
            }
          }
        for (int t = 0; t < 9; t++) {
          real* to = dweight + (c * 9 + t) * O + o;
          store(to, load(to) + d[t]);
        }
        if (c == 0) store(dbias + o, load(dbias + o) + total);
      }
  }

  static void backward(const real* gradient, int stride, const real* slopes, const real* weight,
                       real* dx) {
    static thread_local real padded[C * PH * PW];
    memset(padded, 0, sizeof padded);
    for (int h = 0; h < TH; h++)
      for (int w = 0; w < TW; w++) {
        const real* g = gradient + ((h + 1) * stride + w + 1) * O;
        const real* s = slopes + (h * TW + w) * 4 * O;
        for (int c = 0; c < C; c++) {
          vec d[16] = {};  // the 4x4 inputs under this window
          for (int o = 0; o < O; o += LANES) {
            const vec go = load(g + o);
#pragma GCC unroll 4
            for (int q = 0; q < 4; q++) {
              const vec dy = go * load(s + q * O + o);
#pragma GCC unroll 9
              for (int t = 0; t < 9; t++)
                d[(q / 2 + t / 3) * 4 + q % 2 + t % 3] += dy * load(weight + (c * 9 + t) * O + o);
            }
          }
          real* p = padded + (c * PH + 2 * h) * PW + 2 * w;
          for (int t = 0; t < 16; t++) p[(t / 4) * PW + t % 4] += sum(d[t]);
        }
      }
    memset(dx, 0, sizeof(real) * C * H * W);
    for (int c = 0; c < C; c++)
      for (int i = 0; i < std::min(H, PH - 1); i++)
        memcpy(dx + (c * H + i) * W, padded + (c * PH + i + 1) * PW + 1,
               sizeof(real) * std::min(W, PW - 1));
  }
};
