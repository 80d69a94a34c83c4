// The energy of the paper's CNN, its gradient with respect to the image, and that of a weighted sum
// of energies with respect to the weights.
//
// Three blocks of [3x3 convolution, LeakyReLU, 2x2 average pooling], then two linear layers. All
// sizes are constants given on the compiler's command line: REAL, CHANNELS, HEIGHT, WIDTH,
// F1, F2, F3 (filters) and HIDDEN (units between the linear layers).
//
// Why it is fast:
// - The second and third convolution, where nearly all multiplications are, use Winograd's
//   transforms, with less than half of the products.
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

#include "direct_block.hpp"
#include "pieces.hpp"
#include "products.hpp"
#include "winograd_block.hpp"

using Block1 = DirectBlock<CHANNELS, F1, HEIGHT, WIDTH>;
using Block2 = WinogradBlock<F1, F2, Block1::TH, Block1::TW>;
using Block3 = WinogradBlock<F2, F3, Block2::TH, Block2::TW>;
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

// x[images][CHANNELS][HEIGHT][WIDTH] to energy[images] and, unless null, gradient like x.
extern "C" void conv_energy(const real* x, real* energy, real* gradient, int images, real leak,
                            const real* const* weights, int threads) {
  if (images == 0) return;
  const Weights w = unpack(weights);
  const int size = piece_size(images, BATCH, threads);
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
  const int size = piece_size(images, BATCH, threads);
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
