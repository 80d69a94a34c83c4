// The energy of the paper's CNN, its gradient with respect to the image, and that of a weighted sum
// of energies with respect to the weights.
//
// Three blocks of [3x3 convolution, LeakyReLU, 2x2 average pooling], then two linear layers. All
// sizes are constants given on the compiler's command line: REAL, CHANNELS, HEIGHT, WIDTH,
// F1, F2, F3 (filters) and HIDDEN (units between the linear layers).
//
// Why it is fast:
// - The second and third convolution, where nearly all multiplications are, use Winograd's
//   F(2x2, 3x3): a 2x2 tile of outputs from a 4x4 tile of inputs by 16 products instead of 36.
//   The transforms are G, B', A' of Lavin & Gray (2016); the backward pass is the exact transpose.
// - A tile of outputs is a pooling window. Bias, LeakyReLU and pooling happen while it is in
//   registers, and rows that pooling drops are never computed.
// - Each thread takes a few images through the whole network, so that everything stays in its cache.
//
// Activations are stored channels-last, with a border of zeros where the convolution pads.

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <omp.h>

using real = REAL;
constexpr int LANES = 32 / sizeof(real);
constexpr int PANEL = 2 * LANES;  // columns that one micro-kernel computes
using vec = real __attribute__((vector_size(32), aligned(sizeof(real)), may_alias));

static inline vec load(const real* p) { return *reinterpret_cast<const vec*>(p); }
static inline void store(real* p, vec v) { *reinterpret_cast<vec*>(p) = v; }
static inline vec all(real value) { return value - vec{}; }
static inline real sum(vec v) {
  real total = 0;
  for (int k = 0; k < LANES; k++) total += v[k];
  return total;
}

// ---- Matrix product: C[rows, N] = A[rows, K] P, with P packed in panels [N / PANEL][K][PANEL].

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

// ---- C[K, N] += A[rows, K]' B[rows, N]: what gradients of weights are made of.

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

// LeakyReLU(y) = y * slope(y); a quarter for the mean over the pooling window.
struct Slope {
  vec positive, negative;
  explicit Slope(real s) : positive(all(real(0.25))), negative(all(real(0.25) * s)) {}
  vec operator()(vec y) const { return y > 0 ? positive : negative; }
};

// ---- First block: few input channels, so the convolution is done directly.

template <int C, int O, int H, int W>
struct FirstBlock {
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

// ---- Further blocks: Winograd.

template <int C, int O, int H, int W>
struct Block {
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

// ---- The network.

using Block1 = FirstBlock<CHANNELS, F1, HEIGHT, WIDTH>;
using Block2 = Block<F1, F2, Block1::TH, Block1::TW>;
using Block3 = Block<F2, F3, Block2::TH, Block2::TW>;
constexpr int FEATURES = Block3::TILES * F3;
constexpr int IMAGE = CHANNELS * HEIGHT * WIDTH;
constexpr int BATCH = 4;  // images that a thread takes through the network together

// Scratch memory of one thread: about 1.3 MB for 28x28 images.
struct Scratch {
  real *x2, *slopes1, *x3, *slopes2, *features, *slopes3, *V, *M, *hidden;
  void* memory;
  Scratch() {
    constexpr size_t sizes[] = {
        size_t(BATCH) * Block2::INPUT,
        size_t(BATCH) * Block1::SLOPES,
        size_t(BATCH) * Block3::INPUT,
        size_t(BATCH) * Block2::SLOPES,
        size_t(BATCH) * FEATURES,
        size_t(BATCH) * Block3::SLOPES,
        size_t(std::max(Block2::IN_TRANSFORM, Block3::IN_TRANSFORM)),
        size_t(std::max(Block2::OUT_TRANSFORM, Block3::OUT_TRANSFORM)),
        size_t(BATCH) * HIDDEN,
    };
    real** parts[] = {&x2, &slopes1, &x3, &slopes2, &features, &slopes3, &V, &M, &hidden};
    size_t total = 0;
    for (size_t size : sizes) total += (size + 15) / 16 * 16;
    memory = calloc(total + 16, sizeof(real));
    real* next = reinterpret_cast<real*>((reinterpret_cast<size_t>(memory) + 63) / 64 * 64);
    for (int k = 0; k < 9; next += (sizes[k] + 15) / 16 * 16, k++) *parts[k] = next;
  }
  ~Scratch() { free(memory); }
};

struct Weights {  // as packed by the caller
  const real *w1, *b1, *u2, *u2t, *b2, *u3, *u3t, *b3, *linear1, *linear1t, *bias1, *linear2, *bias2;
};

// What the gradient of sum_n coefficient[n] energy[n] with respect to the weights is made of.
struct Sums {
  const real* coefficient;
  real *features, *activations, *deltas;    // of every image, for the linear layers
  real *dw1, *db1, *du2, *db2, *du3, *db3;  // of one thread, added to
};

static void some_images(const real* x, real* energy, real* gradient, int images, real leak,
                        const Weights& w, Scratch& s, const Sums* sums) {
  const Slope slope(leak);
  // Gradients reuse the memory of the activations, so the zero borders are made anew.
  memset(s.x2, 0, sizeof(real) * images * Block2::INPUT);
  memset(s.x3, 0, sizeof(real) * images * Block3::INPUT);
  for (int i = 0; i < images; i++)
    Block1::forward(x + i * IMAGE, w.w1, w.b1, slope, s.x2 + i * Block2::INPUT, Block2::PW,
                    s.slopes1 + i * Block1::SLOPES);
  for (int i = 0; i < images; i += Block2::GROUP)
    Block2::forward(s.x2 + i * Block2::INPUT, std::min(Block2::GROUP, images - i), w.u2, w.b2,
                    slope, s.V, s.M, s.x3 + i * Block3::INPUT, Block3::PW, Block3::INPUT, 1,
                    s.slopes2 + i * Block2::SLOPES);
  for (int i = 0; i < images; i += Block3::GROUP)
    Block3::forward(s.x3 + i * Block3::INPUT, std::min(Block3::GROUP, images - i), w.u3, w.b3,
                    slope, s.V, s.M, s.features + i * FEATURES, Block3::TW, FEATURES, 0,
                    s.slopes3 + i * Block3::SLOPES);
  multiply(s.features, w.linear1t, s.hidden, images, FEATURES, HIDDEN);
  for (int i = 0; i < images; i++) {
    real total = w.bias2[0];
    for (int k = 0; k < HIDDEN; k++) {
      const real h = s.hidden[i * HIDDEN + k] + w.bias1[k];
      const real slope_of = h > 0 ? real(1) : leak;
      const real d = w.linear2[k] * slope_of;
      total += h * d;
      s.hidden[i * HIDDEN + k] = sums ? sums->coefficient[i] * d : d;
      if (sums) sums->activations[i * HIDDEN + k] = h * slope_of;
    }
    energy[i] = total;
  }
  if (!gradient && !sums) return;
  if (sums) {
    memcpy(sums->features, s.features, sizeof(real) * images * FEATURES);
    memcpy(sums->deltas, s.hidden, sizeof(real) * images * HIDDEN);
  }
  multiply(s.hidden, w.linear1, s.features, images, HIDDEN, FEATURES);
  for (int i = 0; i < images; i += Block3::GROUP)
    Block3::backward(s.features + i * FEATURES, std::min(Block3::GROUP, images - i), Block3::TW,
                     FEATURES, 0, s.slopes3 + i * Block3::SLOPES, w.u3t, s.V, s.M,
                     s.x3 + i * Block3::INPUT, sums ? sums->du3 : nullptr,
                     sums ? sums->db3 : nullptr);
  for (int i = 0; i < images; i += Block2::GROUP)
    Block2::backward(s.x3 + i * Block3::INPUT, std::min(Block2::GROUP, images - i), Block3::PW,
                     Block3::INPUT, 1, s.slopes2 + i * Block2::SLOPES, w.u2t, s.V, s.M,
                     s.x2 + i * Block2::INPUT, sums ? sums->du2 : nullptr,
                     sums ? sums->db2 : nullptr);
  for (int i = 0; i < images; i++) {
    const real* g = s.x2 + i * Block2::INPUT;
    const real* slopes = s.slopes1 + i * Block1::SLOPES;
    if (sums) Block1::weights(x + i * IMAGE, g, Block2::PW, slopes, sums->dw1, sums->db1);
    if (gradient) Block1::backward(g, Block2::PW, slopes, w.w1, gradient + i * IMAGE);
  }
}

static Weights unpack(const real* const* weights) {
  Weights w;
  const real** fields[] = {&w.w1, &w.b1, &w.u2, &w.u2t, &w.b2, &w.u3, &w.u3t,
                           &w.b3, &w.linear1, &w.linear1t, &w.bias1, &w.linear2, &w.bias2};
  for (int k = 0; k < 13; k++) *fields[k] = weights[k];
  return w;
}

// Images per batch: batches of equal size, a multiple of the threads in number, so that none waits.
static int batch_size(int images, int threads) {
  int batches = (images + BATCH - 1) / BATCH;
  batches += (threads - batches % threads) % threads;
  return (images + batches - 1) / batches;
}

// x[images][CHANNELS][HEIGHT][WIDTH] to energy[images] and, unless null, gradient like x.
extern "C" void conv_energy(const real* x, real* energy, real* gradient, int images, real leak,
                            const real* const* weights, int threads) {
  if (images == 0) return;
  const Weights w = unpack(weights);
  const int size = batch_size(images, threads);
#pragma omp parallel num_threads(threads)
  {
    static thread_local Scratch scratch;
#pragma omp for schedule(dynamic, 1)
    for (int start = 0; start < images; start += size)
      some_images(x + size_t(start) * IMAGE, energy + start,
                  gradient ? gradient + size_t(start) * IMAGE : nullptr,
                  std::min(size, images - start), leak, w, scratch, nullptr);
  }
}

// The parts of the gradient of sum_n coefficient[n] energy[n] with respect to the weights, in the
// order of Sums; dw1 to db3 are [threads][...] and come as zeros.
extern "C" void conv_weights(const real* x, const real* coefficient, int images, real leak,
                             const real* const* weights, real* const* parts, int threads) {
  if (images == 0) return;
  const Weights w = unpack(weights);
  const int size = batch_size(images, threads);
#pragma omp parallel num_threads(threads)
  {
    static thread_local Scratch scratch;
    real energy[BATCH];
    const int t = omp_get_thread_num();
    // Which thread takes which images is fixed, so that sums are the same every time.
    for (int start = t * size; start < images; start += omp_get_num_threads() * size) {
      const Sums sums = {coefficient + start,
                         parts[0] + size_t(start) * FEATURES,
                         parts[1] + size_t(start) * HIDDEN,
                         parts[2] + size_t(start) * HIDDEN,
                         parts[3] + t * CHANNELS * 9 * F1,
                         parts[4] + t * F1,
                         parts[5] + t * 16 * F1 * F2,
                         parts[6] + t * F2,
                         parts[7] + t * 16 * F2 * F3,
                         parts[8] + t * F3};
      some_images(x + size_t(start) * IMAGE, energy, nullptr, std::min(size, images - start), leak,
                  w, scratch, &sums);
    }
  }
}
