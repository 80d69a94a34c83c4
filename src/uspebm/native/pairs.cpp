// Lists of pairs of a moving and a fixed point, with lower bounds on their distances; and, at the
// end, every pair at once, of points of few coordinates or with bounds that rule most pairs out.
//
// A pair is looked at only when its bound no longer rules a violation out: first by its sketch
// (a few coordinates, "along"), then by all coordinates. Points are read once, where the gradient of
// a violating pair is added while its point is still in the cache.
//
// What a look teaches is kept: the distance, and the part of it across the sketched directions.
// When point i moves by s, the first shrinks by at most |s| and the second by at most the part of s
// across. Both are stored beside the way that i had gone, so that a move costs nothing here.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <omp.h>
#include <vector>

#include "vectors.hpp"

constexpr real SAFE = 1e-3;  // generous relative allowance for rounding in distances
constexpr int CACHED = 1 << 19;  // bytes of points that stay in a core's cache

// The fixed points listed for one moving point i.
struct List {
  std::vector<std::int32_t> j;
  std::vector<real> distance;  // at least this far apart, plus the way that i had gone by then
  std::vector<real> across;    // likewise, across the sketched directions
};
using Lists = std::vector<List>;

static real squared_distance(const real* a, const real* b, int d) {
  vec total[4] = {};
  int k = 0;
  for (; k + 4 * LANES <= d; k += 4 * LANES)
    for (int part = 0; part < 4; part++) {
      const vec offset = load(a + k + part * LANES) - load(b + k + part * LANES);
      total[part] += offset * offset;
    }
  for (; k + LANES <= d; k += LANES) {
    const vec offset = load(a + k) - load(b + k);
    total[0] += offset * offset;
  }
  real rest = 0;
  for (; k < d; k++) rest += (a[k] - b[k]) * (a[k] - b[k]);
  const vec sum = (total[0] + total[1]) + (total[2] + total[3]);
  for (int lane = 0; lane < LANES; lane++) rest += sum[lane];
  return rest;
}

static inline const real* row(const real* points, int i, int d) {
  return points + static_cast<std::size_t>(i) * d;
}

// Adds what x, so far away, does to u.
static inline void repel(const real* u, const real* x, int d, real distance, real weight,
                         real* push, real& nearest, bool& coincident) {
  nearest = std::min(nearest, distance);
  if (distance == 0) coincident = true;
  const real pull = distance > 0 ? weight / distance : 0;
  for (int k = 0; k < d; k++) push[k] += pull * (u[k] - x[k]);
}

extern "C" {

Lists* lists_new(int rows) { return new Lists(rows); }

void lists_delete(Lists* lists) { delete lists; }

void lists_clear(Lists* lists, const std::int64_t* rows, int count) {
  for (int r = 0; r < count; r++) {
    List& list = (*lists)[rows[r]];
    list.j.clear();
    list.distance.clear();
    list.across.clear();
  }
}

// Adds to rows[r] each of the points first + c, c < columns, whose squared[r, c] is below `limit`
// and which is not absent. `error` bounds the rounding of `squared`; `gone` is the way gone so far.
void lists_add(Lists* lists, const std::int64_t* rows, int count, const real* squared, int columns,
               int first, const bool* absent, real limit, real error, const real* gone) {
  for (int r = 0; r < count; r++) {
    List& list = (*lists)[rows[r]];
    const real* values = squared + static_cast<std::size_t>(r) * columns;
    for (int c = 0; c < columns; c++)
      if (values[c] < limit && !absent[c]) {
        const real bound = std::sqrt(std::max(values[c] - error, real(0)));
        list.j.push_back(first + c);
        list.distance.push_back(bound * (1 - SAFE) + gone[rows[r]]);
        list.across.push_back(0);
      }
  }
}

// Adds every violation of `spacing` among the listed pairs to gradient, nearest and coincident.
// Sketches have `directions` coordinates, the last of which is the length of the rest; none where
// they are the points themselves. `error` bounds the rounding of their squared distances.
void lists_look(Lists* lists, const real* moving, const real* fixed, int n, int d,
                const real* places, const real* fixed_places, int directions, real error,
                const real* gone, const real* gone_across, real spacing, real* gradient,
                real* nearest, bool* coincident, int threads) {
  const int rows = static_cast<int>(lists->size());
  const int block = std::max<int>(1, CACHED / (d * sizeof(real)));
#pragma omp parallel num_threads(threads)
  {
    std::vector<std::size_t> next(rows);
    // Moving points share neighbours: all look at one block of fixed points while it is cached.
    for (int end = block; end < n + block; end += block)
      for (int i = omp_get_thread_num(); i < rows; i += omp_get_num_threads()) {
        List& list = (*lists)[i];
        const real within = spacing + gone[i];
        const real* u = row(moving, i, d);
        const real* place = row(places, i, directions);
        real* push = gradient + static_cast<std::size_t>(i) * d;
        for (std::size_t& pair = next[i]; pair < list.j.size() && list.j[pair] < end; pair++) {
          if (list.distance[pair] >= within) continue;
          real along = 0;
          if (directions) {
            const real* other = row(fixed_places, list.j[pair], directions);
            const real rest = std::abs(place[directions - 1] - other[directions - 1]);
            along = squared_distance(place, other, directions) - rest * rest;
            const real across = std::max(rest, list.across[pair] - gone_across[i]);
            const real bound = std::sqrt(std::max(along + across * across - error, real(0)));
            if (bound * (1 - SAFE) >= spacing) {
              list.distance[pair] = bound * (1 - SAFE) + gone[i];
              continue;
            }
          }
          const real* x = row(fixed, list.j[pair], d);
          const real squared = squared_distance(u, x, d), distance = std::sqrt(squared);
          const real across = std::sqrt(std::max(squared * (1 - SAFE) - along - error, real(0)));
          list.distance[pair] = distance * (1 - SAFE) + gone[i];
          list.across[pair] = across * (1 - SAFE) + gone_across[i];
          if (distance >= spacing) continue;
          repel(u, x, d, distance, 1, push, nearest[i], coincident[i]);
        }
      }
  }
}

// Adds every violation of `spacing` between the points `here` and others, weighted, to gradient,
// nearest and coincident. Of the others all first coordinates lie together in `columns`, then all
// second ones. Where `first` is none of theirs, those that are absent are left out; otherwise here's
// point i is the other point first + i, and does not feel itself.
void compare_all(const real* here, int rows, const real* columns, int n, int d, int first,
                 const bool* absent, real spacing, real weight, real* gradient, real* nearest,
                 bool* coincident, int threads) {
  const real limit = spacing * spacing * (1 + SAFE);
#pragma omp parallel num_threads(threads)
  {
    std::vector<real> squared(n);
#pragma omp for schedule(static)
    for (int i = 0; i < rows; i++) {
      const real* u = row(here, i, d);
      std::fill(squared.begin(), squared.end(), real(0));
      for (int k = 0; k < d; k++) {
        const real* x = columns + static_cast<std::size_t>(k) * n;
        for (int j = 0; j < n; j++) squared[j] += (u[k] - x[j]) * (u[k] - x[j]);
      }
      real* push = gradient + static_cast<std::size_t>(i) * d;
      for (int j = 0; j < n; j++) {
        if (!(squared[j] < limit) || (first < 0 ? absent[j] : j == first + i)) continue;
        const real distance = std::sqrt(squared[j]);
        if (distance >= spacing) continue;
        nearest[i] = std::min(nearest[i], distance);
        if (distance == 0) coincident[i] = true;
        const real pull = distance > 0 ? weight / distance : 0;
        for (int k = 0; k < d; k++)
          push[k] += pull * (u[k] - columns[static_cast<std::size_t>(k) * n + j]);
      }
    }
  }
}

// Adds every violation of `spacing` between the points `here` and others that are not absent,
// weighted, to gradient, nearest and coincident. Only pairs whose bounds[i, j], of squared distance,
// is below `limit` are looked at; of each point they are added in the order of the others.
void compare_bounded(const real* here, int rows, const real* others, int n, int d,
                     const real* bounds, real limit, const bool* absent, real spacing, real weight,
                     real* gradient, real* nearest, bool* coincident, int threads) {
#pragma omp parallel for schedule(static) num_threads(threads)
  for (int i = 0; i < rows; i++) {
    const real* u = row(here, i, d);
    const real* bound = row(bounds, i, n);
    real* push = gradient + static_cast<std::size_t>(i) * d;
    for (int j = 0; j < n; j++) {
      if (!(bound[j] < limit) || (absent && absent[j])) continue;
      const real* x = row(others, j, d);
      const real distance = std::sqrt(squared_distance(u, x, d));
      if (distance >= spacing) continue;
      repel(u, x, d, distance, weight, push, nearest[i], coincident[i]);
    }
  }
}
}
