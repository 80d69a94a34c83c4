// [3x3 convolution, LeakyReLU, 2x2 average pooling] of many input channels, by Winograd's
// F(2x2, 3x3): a 2x2 tile of outputs from a 4x4 tile of inputs by 16 products instead of 36.
// The transforms are G, B', A' of Lavin & Gray (2016); the backward pass is the exact transpose.
#pragma once

#include <cstring>

#include "products.hpp"
#include "slope.hpp"
#include "vectors.hpp"

template <int C, int O, int H, int W>
struct WinogradBlock {
  static constexpr int TH = H / 2, TW = W / 2, TILES = TH * TW;
  static constexpr int PH = 2 * TH + 2, PW = 2 * TW + 2;  // padded input, as far as tiles reach
  static constexpr int INPUT = PH * PW * C, SLOPES = TILES * 4 * O;
  static constexpr int GROUP = TILES >= 32 ? 1 : (32 + TILES - 1) / TILES;  // images per product
  static constexpr int IN_TRANSFORM = 16 * GROUP * TILES * C;
  static constexpr int OUT_TRANSFORM = 16 * GROUP * TILES * O;

  template <typename F>
  static void for_tiles(int images, F f) {
    for (int image = 0, row = 0; image < images; image++)
      for (int h = 0; h < TH; h++)
        for (int w = 0; w < TW; w++, row++) f(image, h, w, row);
  }

  static void transform_input(const real* x, int images, real* V) {
    const int rows = images * TILES;
    for_tiles(images, [&](int image, int h, int w, int row) {
      for (int c = 0; c < C; c += LANES) {
        const real* p = x + image * INPUT + (2 * h * PW + 2 * w) * C + c;
        vec t[4][4];
        for (int j = 0; j < 4; j++) {
          const vec a = load(p + j * C), b = load(p + (PW + j) * C);
          const vec d = load(p + (2 * PW + j) * C), e = load(p + (3 * PW + j) * C);
          t[0][j] = a - d, t[1][j] = b + d, t[2][j] = d - b, t[3][j] = b - e;
        }
        for (int k = 0; k < 4; k++) {
          real* v = V + (4 * k * rows + row) * C + c;
          store(v, t[k][0] - t[k][2]);
          store(v + rows * C, t[k][1] + t[k][2]);
          store(v + 2 * rows * C, t[k][2] - t[k][1]);
          store(v + 3 * rows * C, t[k][1] - t[k][3]);
        }
      }
    });
  }

  // x: padded inputs. out: rows of `stride` pixels, images `size` apart, shifted by `border`.
  static void forward(const real* x, int images, const real* U, const real* bias, Slope slope,
                      real* V, real* M, real* out, int stride, int size, int border,
                      real* slopes) {
    const int rows = images * TILES;
    transform_input(x, images, V);
    for (int k = 0; k < 16; k++)
      multiply(V + k * rows * C, U + k * C * O, M + k * rows * O, rows, C, O);
    for_tiles(images, [&](int image, int h, int w, int row) {
      for (int o = 0; o < O; o += LANES) {
        vec s[4][2], pooled = {};
        for (int j = 0; j < 4; j++) {
          const real* m = M + (j * rows + row) * O + o;
          const vec a = load(m), b = load(m + 4 * rows * O);
          const vec d = load(m + 8 * rows * O), e = load(m + 12 * rows * O);
          s[j][0] = a + b + d, s[j][1] = b - d - e;
        }
        const vec b = load(bias + o);
        for (int q = 0; q < 2; q++) {
          const vec y0 = s[0][q] + s[1][q] + s[2][q] + b, y1 = s[1][q] - s[2][q] - s[3][q] + b;
          const vec s0 = slope(y0), s1 = slope(y1);
          pooled += y0 * s0 + y1 * s1;
          store(slopes + (row * 4 + 2 * q) * O + o, s0);
          store(slopes + (row * 4 + 2 * q + 1) * O + o, s1);
        }
        store(out + image * size + ((h + border) * stride + w + border) * O + o, pooled);
      }
    });
  }

  // From the gradient at the pooled outputs to that at the padded inputs, in whose place x it goes.
  // Unless null, dU[16][C][O] and dbias[O] are added to.
  static void backward(const real* gradient, int images, int stride, int size, int border,
                       const real* slopes, const real* Ut, real* V, real* M, real* x, real* dU,
                       real* dbias) {
    const int rows = images * TILES;
    for_tiles(images, [&](int image, int h, int w, int row) {
      for (int o = 0; o < O; o += LANES) {
        const vec g = load(gradient + image * size + ((h + border) * stride + w + border) * O + o);
        const real* s = slopes + row * 4 * O + o;
        vec u[2][4];
        for (int q = 0; q < 2; q++) {
          const vec a = g * load(s + q * O), b = g * load(s + (2 + q) * O);
          u[q][0] = a, u[q][1] = a + b, u[q][2] = a - b, u[q][3] = -b;
        }
        if (dbias) store(dbias + o, load(dbias + o) + u[0][1] + u[1][1]);
        for (int k = 0; k < 4; k++) {
          real* m = M + (4 * k * rows + row) * O + o;
          store(m, u[0][k]);
          store(m + rows * O, u[0][k] + u[1][k]);
          store(m + 2 * rows * O, u[0][k] - u[1][k]);
          store(m + 3 * rows * O, -u[1][k]);
        }
      }
    });
    if (dU) {
      transform_input(x, images, V);
      for (int k = 0; k < 16; k++)
        accumulate(V + k * rows * C, M + k * rows * O, dU + k * C * O, rows, C, O);
    }
    for (int k = 0; k < 16; k++)
      multiply(M + k * rows * O, Ut + k * C * O, V + k * rows * C, rows, O, C);
    memset(x, 0, sizeof(real) * images * INPUT);
    for_tiles(images, [&](int image, int h, int w, int row) {
      for (int c = 0; c < C; c += LANES) {
        vec t[4][4];
        for (int j = 0; j < 4; j++) {
          const real* v = V + (j * rows + row) * C + c;
          const vec a = load(v), b = load(v + 4 * rows * C);
          const vec d = load(v + 8 * rows * C), e = load(v + 12 * rows * C);
          t[0][j] = a, t[1][j] = b - d + e, t[2][j] = b + d - a, t[3][j] = -e;
        }
        for (int k = 0; k < 4; k++) {
          real* p = x + image * INPUT + ((2 * h + k) * PW + 2 * w) * C + c;
          const vec a = t[k][0], b = t[k][1], d = t[k][2], e = t[k][3];
          store(p, load(p) + a);
          store(p + C, load(p + C) + (b - d + e));
          store(p + 2 * C, load(p + 2 * C) + (b + d - a));
          store(p + 3 * C, load(p + 3 * C) - e);
        }
      }
    });
  }
};
