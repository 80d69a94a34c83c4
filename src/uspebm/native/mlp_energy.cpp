// The energies of multi-layer perceptrons, and their gradients with respect to the points.
//
// Linear layers with LeakyReLU between them, of few inputs, equally wide inside. The energy is the
// one output f(x), or |x - f(x)|^2, of as many outputs as inputs.
//
// Why it is fast: each thread takes some points through all layers, forward and back, so that what
// is between two layers stays in its cache, and keeps nothing that the gradient does not need.

#include <algorithm>
#include <cstddef>
#include <omp.h>
#include <vector>

#include "pieces.hpp"
#include "products.hpp"

constexpr int POINTS = 48;  // that a thread takes through the layers together

struct Network {  // as packed by the caller
  int inputs, width, inner, outputs;  // `inner` layers from width to width
  real leak;
  bool reconstructs;
  const real *first, *first_bias;  // [inputs][width], [width]
  const real* const* between;      // of each: panels of its transpose, its bias, its panels
  const real *last, *last_bias;    // [outputs][width], [outputs]
};

// y <- LeakyReLU(y + bias). It keeps the sign, by which the way back knows the slope.
static void activate(real* y, const real* bias, int rows, int width, real leak) {
  const vec none = {}, slope = all(leak);
  for (int r = 0; r < rows; r++, y += width)
    for (int k = 0; k < width; k += LANES) {
      const vec h = load(y + k) + load(bias + k);
      store(y + k, h > none ? h : h * slope);
    }
}

// g <- g * LeakyReLU' where the activation is h.
static void deactivate(real* g, const real* h, int size, real leak) {
  const vec none = {}, slope = all(leak);
  for (int k = 0; k < size; k += LANES) {
    const vec v = load(g + k);
    store(g + k, load(h + k) > none ? v : v * slope);
  }
}

static real dot(const real* a, const real* b, int size) {
  vec total = {};
  for (int k = 0; k < size; k += LANES) total += load(a + k) * load(b + k);
  return sum(total);
}

// to[width] = sum_j by[j] rows[j][width].
static void combine(const real* by, const real* rows, int count, real* to, int width) {
  for (int k = 0; k < width; k += LANES) {
    vec total = {};
    for (int j = 0; j < count; j++) total += by[j] * load(rows + j * width + k);
    store(to + k, total);
  }
}

// `hidden` holds the activations of all layers, one after the other, and two more of the kind.
static void some_points(const real* x, real* energy, real* gradient, int rows, const Network& net,
                        real* hidden) {
  const int size = rows * net.width;
  for (int r = 0; r < rows; r++)
    combine(x + r * net.inputs, net.first, net.inputs, hidden + r * net.width, net.width);
  activate(hidden, net.first_bias, rows, net.width, net.leak);
  real* h = hidden;
  for (int layer = 0; layer < net.inner; layer++, h += size) {
    multiply(h, net.between[3 * layer], h + size, rows, net.width, net.width);
    activate(h + size, net.between[3 * layer + 1], rows, net.width, net.leak);
  }
  real *g = h + size, *other = g + size;
  std::vector<real> by(net.outputs);  // dE / df
  for (int r = 0; r < rows; r++) {
    energy[r] = 0;
    for (int o = 0; o < net.outputs; o++) {
      const real f = net.last_bias[o] + dot(h + r * net.width, net.last + o * net.width, net.width);
      const real off = x[r * net.inputs + o] - f;
      energy[r] += net.reconstructs ? off * off : f;
      by[o] = net.reconstructs ? -2 * off : 1;
      if (net.reconstructs) gradient[r * net.inputs + o] = 2 * off;
    }
    combine(by.data(), net.last, net.outputs, g + r * net.width, net.width);
  }
  for (int layer = net.inner - 1; layer >= 0; layer--, h -= size) {
    deactivate(g, h, size, net.leak);
    multiply(g, net.between[3 * layer + 2], other, rows, net.width, net.width);
    std::swap(g, other);
  }
  deactivate(g, h, size, net.leak);
  for (int r = 0; r < rows; r++)
    for (int j = 0; j < net.inputs; j++) {
      real& to = gradient[r * net.inputs + j];
      const real through = dot(g + r * net.width, net.first + j * net.width, net.width);
      to = net.reconstructs ? to + through : through;
    }
}

// x[points][inputs] to energy[points] and gradient like x. `sizes`: inputs, width, layers between
// the first and the last, outputs, whether |x - f(x)|^2 is meant. `weights`: those of the first
// layer, of each one between, and of the last, in the order of Network.
extern "C" void mlp_energy(const real* x, real* energy, real* gradient, int points,
                           const int* sizes, real leak, const real* const* weights, int threads) {
  if (points == 0) return;
  const int inner = sizes[2];
  const real* const* end = weights + 2 + 3 * inner;
  const Network net = {sizes[0],   sizes[1],   inner,       sizes[3], leak,  sizes[4] != 0,
                       weights[0], weights[1], weights + 2, end[0],   end[1]};
  const int rows = piece_size(points, POINTS, threads);
#pragma omp parallel num_threads(threads)
  {
    std::vector<real> hidden(size_t(inner + 3) * rows * net.width);
#pragma omp for schedule(dynamic, 1)
    for (int start = 0; start < points; start += rows)
      some_points(x + size_t(start) * net.inputs, energy + start,
                  gradient + size_t(start) * net.inputs, std::min(rows, points - start), net,
                  hidden.data());
  }
}
