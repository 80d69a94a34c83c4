// Curves of straight pieces, each at its own number of a row: a binary search without branches.

#include <cstddef>

extern "C" {

// `x` and `out`: (rows, curves); `knots`, `values` and `slopes` from each knot on: (curves, count);
// `first`: (curves,), slopes below the first knot.
void curves(const double* x, long rows, long number, const double* knots, const double* values,
            const double* slopes, const double* first, long count, double* out, int threads) {
#pragma omp parallel for num_threads(threads) schedule(static)
  for (long row = 0; row < rows; row++)
    for (long c = 0; c < number; c++) {
      const double at = x[row * number + c];
      const double* own = knots + static_cast<std::size_t>(c) * count;
      long low = 0;
      for (long size = count; size > 1;) {
        const long half = size / 2;
        low = own[low + half] <= at ? low + half : low;
        size -= half;
      }
      const std::size_t place = static_cast<std::size_t>(c) * count + low;
      const double slope = at < own[0] ? first[c] : slopes[place];
      out[row * number + c] = values[place] + slope * (at - own[low]);
    }
}
}
