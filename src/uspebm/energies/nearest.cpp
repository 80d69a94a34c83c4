// The k nearest of many centres to each of many points, without a matrix of distances.
//
// Centres come in panels of PANEL, coordinate by coordinate, so that one load serves a vector of
// them; points are taken TILE at a time, so that one panel in the registers' reach serves them all.
// What is compared is |c|²/2 − z·c, which orders centres as distances do. A panel whose best is no
// better than a point's k-th so far is left at once; after the first panels nearly all are.

#include <cstdint>
#include <limits>
#ifdef __AVX__
#include <immintrin.h>
#endif

#ifdef __AVX512F__
constexpr int BYTES = 64, TILE = 8;
#else
constexpr int BYTES = 32, TILE = 6;
#endif
using vec = float __attribute__((vector_size(BYTES), aligned(4), may_alias));

constexpr int LANES = BYTES / 4;
constexpr int PANEL = 32;
constexpr int VECTORS = PANEL / LANES > 2 ? 2 : PANEL / LANES;  // of a panel, at a time
constexpr int WIDTH = VECTORS * LANES;
constexpr int MOST = 64;           // neighbours of a point
constexpr int CACHED = 48 * 1024;  // floats of panels that a core's cache keeps

static inline vec load(const float* p) { return *reinterpret_cast<const vec*>(p); }

// Of a vector's lanes, those below the limit: a bit for each.
static inline std::uint32_t below(vec values, vec limit) {
#if defined(__AVX512F__)
  return _mm512_cmp_ps_mask(values, limit, _CMP_LT_OQ);
#elif defined(__AVX__)
  return _mm256_movemask_ps(_mm256_cmp_ps(values, limit, _CMP_LT_OQ));
#else
  std::uint32_t bits = 0;
  for (int lane = 0; lane < LANES; lane++) bits |= std::uint32_t(values[lane] < limit[lane]) << lane;
  return bits;
#endif
}

// The nearest so far, ascending.
struct Best {
  float value[MOST];
  std::int64_t which[MOST];

  void insert(float v, std::int64_t j, int k) {
    int at = k - 1;
    for (; at > 0 && value[at - 1] > v; at--) {
      value[at] = value[at - 1];
      which[at] = which[at - 1];
    }
    value[at] = v;
    which[at] = j;
  }
};

// TILE points, or copies where there are fewer, against WIDTH centres from `first` on.
static inline void one_tile(const float* const* points, const float* panel, const float* half,
                            std::int64_t first, int d, int k, const std::int64_t* own, Best* best) {
  vec dot[TILE][VECTORS] = {};
  for (int c = 0; c < d; c++)
    for (int v = 0; v < VECTORS; v++) {
      const vec centres = load(panel + c * PANEL + v * LANES);
      for (int q = 0; q < TILE; q++) dot[q][v] += points[q][c] * centres;
    }
#pragma GCC unroll 8
  for (int q = 0; q < TILE; q++) {
    const vec limit = best[q].value[k - 1] - vec{};
    std::uint64_t bits = 0;
#pragma GCC unroll 2
    for (int v = 0; v < VECTORS; v++) {
      dot[q][v] = load(half + v * LANES) - dot[q][v];
      bits |= static_cast<std::uint64_t>(below(dot[q][v], limit)) << (v * LANES);
    }
    if (__builtin_expect(bits == 0, 1)) continue;
    float value[WIDTH];
    __builtin_memcpy(value, dot[q], sizeof(value));
    for (; bits != 0; bits &= bits - 1) {
      const int lane = __builtin_ctzll(bits);
      if (value[lane] < best[q].value[k - 1] && first + lane != own[q])
        best[q].insert(value[lane], first + lane, k);
    }
  }
}

extern "C" {

// `panels`: (blocks, d, PANEL); `half`: (blocks, PANEL), halves of squared lengths, infinite where
// there is no centre. `own`: for each point a centre that does not count, or nothing.
// Writes `which`: (count, k), nearest first.
void nearest(const float* points, int count, const float* panels, const float* half, int blocks,
             int d, int k, const std::int64_t* own, std::int64_t* which, int threads) {
  const int tiles = (count + TILE - 1) / TILE;
  const int together = CACHED / (d * PANEL) > 0 ? CACHED / (d * PANEL) : 1;
  const int share = (tiles + threads - 1) / threads;
#pragma omp parallel for num_threads(threads) schedule(static)
  for (int thread = 0; thread < threads; thread++) {
    const int begin = thread * share, end = begin + share < tiles ? begin + share : tiles;
    if (begin >= end) continue;
    Best* best = new Best[static_cast<std::size_t>(end - begin) * TILE];
    for (int i = 0; i < (end - begin) * TILE; i++)
      for (int j = 0; j < k; j++) {
        best[i].value[j] = std::numeric_limits<float>::infinity();
        best[i].which[j] = 0;
      }
    for (int from = 0; from < blocks; from += together) {
      const int to = from + together < blocks ? from + together : blocks;
      for (int tile = begin; tile < end; tile++) {
        const int here = count - tile * TILE < TILE ? count - tile * TILE : TILE;
        const float* rows[TILE];
        std::int64_t own_rows[TILE];
        for (int q = 0; q < TILE; q++) {
          const int i = tile * TILE + (q < here ? q : 0);
          rows[q] = points + static_cast<std::size_t>(i) * d;
          own_rows[q] = own == nullptr ? -1 : own[i];
        }
        for (int b = from; b < to; b++)
          for (int part = 0; part < PANEL; part += WIDTH)
            one_tile(rows, panels + static_cast<std::size_t>(b) * d * PANEL + part,
                     half + b * PANEL + part, static_cast<std::int64_t>(b) * PANEL + part, d, k,
                     own_rows, best + static_cast<std::size_t>(tile - begin) * TILE);
      }
    }
    for (int i = 0; i < (end - begin) * TILE && begin * TILE + i < count; i++)
      for (int j = 0; j < k; j++)
        which[static_cast<std::size_t>(begin * TILE + i) * k + j] = best[i].which[j];
    delete[] best;
  }
}
}
