// gather, scatter, scatter_add and nonzero (docs/numerics.md, section 15). All walk lines along the last dimension; an index that doesn't
// change along a line (stride 0: index_select, embedding) makes it a copy or an addition of whole rows.
#include <atomic>
#include <cstring>

#include "data.hpp"
#include "pack.hpp"
#include "reduce_axes.hpp"

namespace cpu {
namespace {

using namespace reduce;

constexpr int64_t kChain = 512;

// The first index out of range, found by any thread. Told at the end; such an element is left out.
class BadIndex {
 public:
  void note(int64_t value) {
    if (!seen_.exchange(true)) value_ = value;
  }
  void check(const std::string &op, int64_t size) const {
    if (seen_.load())
      throw OutOfRange("[" + op + "] index out of range: got " + std::to_string(value_.load()) + ", expected 0 <= index < " +
                       std::to_string(size));
  }

 private:
  std::atomic<bool> seen_{false};
  std::atomic<int64_t> value_{0};
};

// Dimensions of the index operand, split: the last one, the axis, and the others. `whole` is the operand that the index points into.
struct Lines {
  int outer_rank = 0;
  int64_t outer_dims[HAL_MAX_RANK], outer_index[HAL_MAX_RANK], outer_whole[HAL_MAX_RANK], outer_other[HAL_MAX_RANK];
  int64_t outer = 1;                                    // product of the dimensions other than the axis and the last
  int64_t n, index_axis, whole_axis, other_axis;        // along the axis; other: src or out, of the index's shape
  int64_t columns, index_last, whole_last, other_last;  // along the last dimension; 1 and 0s if that is the axis
  int64_t size;                                         // of `whole` along the axis

  Lines(const hal_operand &index, const hal_operand &whole, const hal_operand &other, int64_t axis) {
    const int last = int(index.rank) - 1;
    for (int d = 0; d < last; ++d) {
      if (d == axis) continue;
      outer_dims[outer_rank] = index.dims[d];
      outer_index[outer_rank] = index.strides[d];
      outer_whole[outer_rank] = whole.strides[d];
      outer_other[outer_rank] = other.strides[d];
      outer *= index.dims[d];
      ++outer_rank;
    }
    n = index.dims[axis];
    index_axis = index.strides[axis];
    whole_axis = whole.strides[axis];
    other_axis = other.strides[axis];
    size = whole.dims[axis];
    const bool apart = axis != last;
    columns = apart ? index.dims[last] : 1;
    index_last = apart && columns > 1 ? index.strides[last] : 0;
    whole_last = apart ? whole.strides[last] : 0;
    other_last = apart ? other.strides[last] : 0;
  }

  struct Offsets {
    int64_t index = 0, whole = 0, other = 0;
  };
  Offsets at(int64_t line) const {
    Offsets o;
    for (int d = outer_rank - 1; d >= 0; --d) {
      const int64_t i = line % outer_dims[d];
      line /= outer_dims[d];
      o.index += i * outer_index[d];
      o.whole += i * outer_whole[d];
      o.other += i * outer_other[d];
    }
    return o;
  }
  bool rows() const { return columns > 1 && index_last == 0; }
};

void check_axis(const hal_op &op, const hal_operand &index, const hal_operand &whole, const hal_operand &other, int64_t axis) {
  require(index.dtype == HAL_I64, op, "index: expected i64");
  require(index.rank >= 1 && axis >= 0 && axis < int64_t(index.rank), op,
          "axis: got " + std::to_string(axis) + " for " + shape_text(index));
  require(same_shape(index, other), op, "shapes differ: got " + shape_text(index) + " and " + shape_text(other));
  bool inside = whole.rank == index.rank;
  for (uint32_t d = 0; inside && d < index.rank; ++d) inside = int64_t(d) == axis || index.dims[d] <= whole.dims[d];
  require(inside, op, "index shape: got " + shape_text(index) + ", which reaches outside " + shape_text(whole));
}

// Elements are moved as bits.
template <class F>
std::unique_ptr<Kernel> by_size(hal_dtype dtype, F &&f) {
  switch (dtype_size(dtype)) {
    case 1:
      return f(uint8_t{});
    case 2:
      return f(uint16_t{});
    case 4:
      return f(uint32_t{});
    default:
      return f(uint64_t{});
  }
}

// out[j] = x[index[j]·stride + j·step] for n elements.
template <class T>
void pick(const int64_t *index, int64_t index_step, const T *x, int64_t stride, int64_t step, T *out, int64_t out_step, int64_t n,
          int64_t size, BadIndex &bad) {
  const auto loop = [&](auto unit) {
    const int64_t is = decltype(unit)::value ? 1 : index_step, os = decltype(unit)::value ? 1 : out_step;
    for (int64_t j = 0; j < n; ++j) {
      const int64_t at = index[j * is];
      if (__builtin_expect(uint64_t(at) >= uint64_t(size), 0))
        bad.note(at);
      else
        out[j * os] = x[at * stride + j * step];
    }
  };
  if (index_step == 1 && out_step == 1)
    loop(std::true_type{});
  else
    loop(std::false_type{});
}

std::unique_ptr<Kernel> make_gather(const hal_op &op) {
  require_operands(op, 2, 1);
  const hal_operand &x = op.operands[0], &index = op.operands[1], &out = op.operands[2];
  const int64_t axis = attributes<hal_attributes_gather>(op).axis;
  check_axis(op, index, x, out, axis);
  return by_size(x.dtype, [&](auto element) {
    using T = decltype(element);
    return make_kernel([l = Lines(index, x, out, axis), name = std::string(op.name)](void *const *data, void *) {
      const T *x = static_cast<const T *>(data[0]);
      const int64_t *index = static_cast<const int64_t *>(data[1]);
      T *out = static_cast<T *>(data[2]);
      BadIndex bad;
      // One item is a position along the axis on one line; with columns, a row of them.
      parallel_for(l.columns ? l.outer * l.n : 0, std::max<int64_t>(1, kGrain / std::max<int64_t>(1, l.columns)),
                   [&](int64_t begin, int64_t end) {
                     while (begin < end) {
                       const int64_t line = begin / l.n, first = begin % l.n, last = std::min(l.n, first + end - begin);
                       const auto o = l.at(line);
                       const int64_t *ip = index + o.index;
                       const T *xp = x + o.whole;
                       T *op = out + o.other;
                       for (int64_t i = first; i < last; ++i) {
                         if (l.index_last == 0) {
                           const int64_t at = ip[i * l.index_axis];
                           if (uint64_t(at) >= uint64_t(l.size)) {
                             bad.note(at);
                             continue;
                           }
                           const T *from = xp + at * l.whole_axis;
                           T *to = op + i * l.other_axis;
                           if (l.columns == 1)
                             *to = *from;
                           else if (l.whole_last == 1 && l.other_last == 1)
                             std::memcpy(to, from, size_t(l.columns) * sizeof(T));
                           else
                             for (int64_t j = 0; j < l.columns; ++j) to[j * l.other_last] = from[j * l.whole_last];
                           continue;
                         }
                         for (int64_t j = 0; j < l.columns; ++j) {
                           const int64_t at = ip[i * l.index_axis + j * l.index_last];
                           if (uint64_t(at) >= uint64_t(l.size))
                             bad.note(at);
                           else
                             op[i * l.other_axis + j * l.other_last] = xp[at * l.whole_axis + j * l.whole_last];
                         }
                       }
                       begin += last - first;
                     }
                   });
      bad.check(name, l.size);
    });
  });
}

// Serial along the axis, so that the last write wins; parallel over everything else.
template <class Body>
void over_lanes(const Lines &l, Body &&body) {
  parallel_for(l.outer * l.columns, std::max<int64_t>(1, kGrain / std::max<int64_t>(1, l.n)), [&](int64_t begin, int64_t end) {
    while (begin < end) {
      const int64_t line = begin / l.columns, first = begin % l.columns, last = std::min(l.columns, first + end - begin);
      body(l.at(line), first, last);
      begin += last - first;
    }
  });
}

std::unique_ptr<Kernel> make_scatter(const hal_op &op) {
  require_operands(op, 3, 1);
  const hal_operand &x = op.operands[0], &index = op.operands[1], &src = op.operands[2], &out = op.operands[3];
  const int64_t axis = attributes<hal_attributes_scatter>(op).axis;
  require_same_shape(op, x, out);
  check_axis(op, index, out, src, axis);
  hal_op copy = op;
  const hal_operand both[2] = {x, out};
  copy.operands = both;
  copy.num_inputs = copy.num_outputs = 1;
  bool in_place = true;  // possible: equal strides, so that a copy onto itself is none
  for (uint32_t d = 0; d < x.rank; ++d) in_place &= x.dims[d] <= 1 || x.strides[d] == out.strides[d];
  std::shared_ptr<Kernel> copier = make_copy(copy);
  return by_size(x.dtype, [&](auto element) {
    using T = decltype(element);
    const uint64_t workspace = copier->workspace_size;
    return make_kernel(
        [l = Lines(index, out, src, axis), copier, in_place, name = std::string(op.name)](void *const *data, void *workspace) {
          const int64_t *index = static_cast<const int64_t *>(data[1]);
          const T *src = static_cast<const T *>(data[2]);
          T *out = static_cast<T *>(data[3]);
          if (!(in_place && data[0] == data[3])) {
            void *const both[2] = {data[0], data[3]};
            copier->run(both, workspace);
          }
          BadIndex bad;
          over_lanes(l, [&](const Lines::Offsets &o, int64_t first, int64_t last) {
            for (int64_t i = 0; i < l.n; ++i)
              for (int64_t j = first; j < last; ++j) {
                const int64_t at = index[o.index + i * l.index_axis + j * l.index_last];
                if (uint64_t(at) >= uint64_t(l.size))
                  bad.note(at);
                else
                  out[o.whole + at * l.whole_axis + j * l.whole_last] = src[o.other + i * l.other_axis + j * l.other_last];
              }
          });
          bad.check(name, l.size);
        },
        workspace);
  });
}

thread_local Scratch lane_sums, lane_totals, order_scratch, entry_scratch;

// A of section 1: floats in f32 or f64, integers modulo 2^64.
template <int D>
struct Accumulate {
  using S = typename Element<D>::S;
  using A = std::conditional_t<Element<D>::is_float, typename Element<D>::C, uint64_t>;
  static CPU_INLINE A load(S s) {
    if constexpr (Element<D>::is_float)
      return Element<D>::load(s);
    else
      return A(int64_t(s));
  }
  static CPU_INLINE S store(A a) {
    if constexpr (Element<D>::is_float)
      return Element<D>::store(a);
    else
      return S(a);
  }
};

// Columns [j0, j0 + width) of one line.
template <int D>
void add_lanes(const Lines &l, const Lines::Offsets &o, int64_t j0, int64_t width, const int64_t *index,
               const typename Accumulate<D>::S *src, typename Accumulate<D>::S *out, BadIndex &bad) {
  using Acc = Accumulate<D>;
  using A = typename Acc::A;
  const int64_t cells = l.size * width;
  A *chain = lane_sums.get<A>(2 * cells + (cells + 1) / 2 + 1), *total = chain + cells;  // 8 or 4 bytes hold at least two counts
  uint16_t *count = reinterpret_cast<uint16_t *>(total + cells);
  std::fill_n(chain, cells, A(0));
  std::fill_n(count, cells, uint16_t{0});
  bool several = false;  // whether a destination has more than one chain; until then the totals aren't looked at
  for (int64_t i = 0; i < l.n; ++i) {
    const int64_t *ip = index + o.index + i * l.index_axis + j0 * l.index_last;
    const auto *sp = src + o.other + i * l.other_axis + j0 * l.other_last;
    for (int64_t j = 0; j < width; ++j) {
      const int64_t at = ip[j * l.index_last];
      if (uint64_t(at) >= uint64_t(l.size)) {
        bad.note(at);
        continue;
      }
      const int64_t cell = at * width + j;
      if (count[cell] == kChain) {
        if (!several) std::fill_n(total, cells, A(0));
        several = true;
        total[cell] += chain[cell];
        chain[cell] = A(0);
        count[cell] = 0;
      }
      chain[cell] += Acc::load(sp[j * l.other_last]);
      ++count[cell];
    }
  }
  // The first chain is never −0, so adding it to +0 leaves it as it is.
  for (int64_t k = 0; k < l.size; ++k) {
    auto *to = out + o.whole + k * l.whole_axis + j0 * l.whole_last;
    const A *from = chain + k * width, *before = total + k * width;
    for (int64_t j = 0; j < width; ++j) to[j * l.whole_last] = Acc::store(several ? before[j] + from[j] : from[j]);
  }
}

// One line of many destinations: contributions are first dealt, in order, to buckets of destinations whose chains fit into the cache.
template <int D>
void add_buckets(const Lines &l, const Lines::Offsets &o, const int64_t *index, const typename Accumulate<D>::S *src,
                 typename Accumulate<D>::S *out, BadIndex &bad) {
  using Acc = Accumulate<D>;
  using A = typename Acc::A;
  using S = typename Acc::S;
  struct Entry {
    uint32_t cell;
    S value;
  };
  struct Cell {
    A chain;
    uint32_t count;
  };
  constexpr int64_t kMostBuckets = 1024, kPiece = 1 << 16;
  int shift = 15;
  while ((l.size >> shift) >= kMostBuckets) ++shift;
  const int64_t buckets = (l.size >> shift) + 1, pieces = (l.n + kPiece - 1) / kPiece;
  // place[piece][bucket]: how many, then where the piece's next entry of the bucket goes.
  int64_t *place = order_scratch.get<int64_t>(pieces * buckets + buckets + 1), *first = place + pieces * buckets;
  Entry *entries = entry_scratch.get<Entry>(l.n);
  const auto each = [&](int64_t piece, auto &&body) {
    for (int64_t i = piece * kPiece; i < std::min(l.n, (piece + 1) * kPiece); ++i) {
      const int64_t at = index[o.index + i * l.index_axis];
      if (uint64_t(at) < uint64_t(l.size))
        body(i, at);
      else
        bad.note(at);
    }
  };
  parallel_for(pieces, 1, [&](int64_t begin, int64_t end) {
    for (int64_t piece = begin; piece < end; ++piece) {
      int64_t *counts = place + piece * buckets;
      std::fill_n(counts, buckets, 0);
      each(piece, [&](int64_t, int64_t at) { ++counts[at >> shift]; });
    }
  });
  int64_t next = 0;
  for (int64_t b = 0; b < buckets; ++b) {
    first[b] = next;
    for (int64_t piece = 0; piece < pieces; ++piece) {
      const int64_t count = place[piece * buckets + b];
      place[piece * buckets + b] = next;
      next += count;
    }
  }
  first[buckets] = next;
  parallel_for(pieces, 1, [&](int64_t begin, int64_t end) {
    for (int64_t piece = begin; piece < end; ++piece) {
      int64_t *to = place + piece * buckets;
      each(piece, [&](int64_t i, int64_t at) {
        entries[to[at >> shift]++] = {uint32_t(at & ((int64_t{1} << shift) - 1)), src[o.other + i * l.other_axis]};
      });
    }
  });
  parallel_for(buckets, 1, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      const int64_t low = b << shift, length = std::min(l.size - low, int64_t{1} << shift);
      Cell *cells = lane_sums.get<Cell>(length);
      A *total = nullptr;  // sums of finished chains, once a destination has more than one
      std::fill_n(cells, length, Cell{A(0), 0});
      for (int64_t e = first[b]; e < first[b + 1]; ++e) {
        const uint32_t at = entries[e].cell;
        Cell &c = cells[at];
        if (c.count == kChain) {
          if (total == nullptr) {
            total = lane_totals.get<A>(length);
            std::fill_n(total, length, A(0));
          }
          total[at] += c.chain;
          c = Cell{A(0), 0};
        }
        c.chain += Acc::load(entries[e].value);
        ++c.count;
      }
      // The first chain is never −0, so adding it to +0 leaves it as it is.
      S *to = out + o.whole + low * l.whole_axis;
      for (int64_t k = 0; k < length; ++k) to[k * l.whole_axis] = Acc::store(total ? total[k] + cells[k].chain : cells[k].chain);
    }
  });
}

// Whole rows: the sources are sorted by destination (stable), then each destination adds its rows.
template <int D>
void add_rows(const Lines &l, const Lines::Offsets &o, const int64_t *index, const typename Accumulate<D>::S *src,
              typename Accumulate<D>::S *out, BadIndex &bad) {
  using Acc = Accumulate<D>;
  using A = typename Acc::A;
  using S = typename Acc::S;
  int64_t *starts = order_scratch.get<int64_t>(l.size + 1 + l.n), *order = starts + l.size + 1;
  std::fill_n(starts, l.size + 1, 0);
  for (int64_t i = 0; i < l.n; ++i) {
    const int64_t at = index[o.index + i * l.index_axis];
    if (uint64_t(at) >= uint64_t(l.size))
      bad.note(at);
    else
      ++starts[at + 1];
  }
  for (int64_t k = 0; k < l.size; ++k) starts[k + 1] += starts[k];
  for (int64_t i = 0; i < l.n; ++i) {
    const int64_t at = index[o.index + i * l.index_axis];
    if (uint64_t(at) < uint64_t(l.size)) order[starts[at]++] = i;
  }
  // Now starts[k] is where the list of k ends.
  constexpr int64_t kTile = 256;
  const int64_t work = l.columns * std::max<int64_t>(1, l.n / std::max<int64_t>(1, l.size));
  parallel_for(l.size, std::max<int64_t>(1, kGrain / std::max<int64_t>(1, work)), [&](int64_t begin, int64_t end) {
    A chain[kTile], total[kTile];
    for (int64_t k = begin; k < end; ++k) {
      const int64_t from = k ? starts[k - 1] : 0, to = starts[k];
      for (int64_t j0 = 0; j0 < l.columns; j0 += kTile) {
        const int64_t m = std::min(kTile, l.columns - j0);
        std::fill_n(chain, m, A(0));
        std::fill_n(total, m, A(0));
        for (int64_t i = from; i < to; ++i) {
          if (i > from && (i - from) % kChain == 0)
            for (int64_t j = 0; j < m; ++j) {
              total[j] += chain[j];
              chain[j] = A(0);
            }
          const S *row = src + o.other + order[i] * l.other_axis + j0 * l.other_last;
          if (l.other_last == 1)
            for (int64_t j = 0; j < m; ++j) chain[j] += Acc::load(row[j]);
          else
            for (int64_t j = 0; j < m; ++j) chain[j] += Acc::load(row[j * l.other_last]);
        }
        S *to_row = out + o.whole + k * l.whole_axis + j0 * l.whole_last;
        for (int64_t j = 0; j < m; ++j) to_row[j * l.whole_last] = Acc::store(total[j] + chain[j]);
      }
    }
  });
}

std::unique_ptr<Kernel> make_scatter_add(const hal_op &op) {
  require_operands(op, 2, 1);
  const hal_operand &src = op.operands[0], &index = op.operands[1], &out = op.operands[2];
  const int64_t axis = attributes<hal_attributes_scatter_add>(op).axis;
  check_axis(op, index, out, src, axis);
  bool covers = true;  // every destination lies on a line of the index
  for (uint32_t d = 0; d < out.rank; ++d) covers &= int64_t(d) == axis || index.dims[d] == out.dims[d];
  hal_operand zero{};
  zero.struct_size = sizeof zero;
  zero.dtype = out.dtype;
  zero.flags = HAL_OPERAND_IMMEDIATE;
  zero.layout = HAL_LAYOUT_STRIDED;
  hal_operand broadcast = out;
  for (uint32_t d = 0; d < out.rank; ++d) broadcast.strides[d] = 0;
  const hal_operand both[2] = {broadcast, out};
  hal_op fill = op;
  fill.operands = both;
  fill.num_inputs = fill.num_outputs = 1;
  std::shared_ptr<Kernel> filler = covers ? nullptr : make_copy(fill);
  return for_any(src.dtype, [&](auto d) {
    constexpr int D = decltype(d)::value;
    using S = typename Element<D>::S;
    return make_kernel(
        [l = Lines(index, out, src, axis), filler, name = std::string(op.name)](void *const *data, void *workspace) {
          const S *src = static_cast<const S *>(data[0]);
          const int64_t *index = static_cast<const int64_t *>(data[1]);
          S *out = static_cast<S *>(data[2]);
          BadIndex bad;
          if (filler) {
            uint64_t nothing = 0;
            void *const both[2] = {&nothing, out};
            filler->run(both, workspace);
          }
          if (l.rows()) {
            for (int64_t line = 0; line < l.outer; ++line) add_rows<D>(l, l.at(line), index, src, out, bad);
          } else if (l.outer * l.columns == 1 && l.n > kGrain && l.size > kGrain) {
            add_buckets<D>(l, l.at(0), index, src, out, bad);
          } else {
            const int64_t width = std::clamp<int64_t>(32768 / std::max<int64_t>(1, l.size), 1, 16);
            const int64_t groups = (l.columns + width - 1) / width,
                          work = std::max<int64_t>(1, (l.n + l.size) * std::min(width, l.columns));
            parallel_for(l.outer * groups, std::max<int64_t>(1, kGrain / work), [&](int64_t begin, int64_t end) {
              for (int64_t t = begin; t < end; ++t) {
                const int64_t j0 = t % groups * width;
                add_lanes<D>(l, l.at(t / groups), j0, std::min(width, l.columns - j0), index, src, out, bad);
              }
            });
          }
          bad.check(name, l.size);
        },
        filler ? filler->workspace_size : 0);
  });
}

std::unique_ptr<Kernel> make_nonzero(const hal_op &op) {
  require_operands(op, 1, 1);
  const hal_operand &x = op.operands[0], &out = op.operands[1];
  require(out.rank == 1 && out.dtype == HAL_I64, op, "out: got " + shape_text(out) + ", expected (count,) of i64");
  struct Geometry {
    int rank;
    int64_t dims[HAL_MAX_RANK], strides[HAL_MAX_RANK];
  } g{int(x.rank), {}, {}};
  std::copy_n(x.dims, x.rank, g.dims);
  std::copy_n(x.strides, x.rank, g.strides);
  return make_kernel([g, total = element_count(x), n = out.dims[0], stride = out.strides[0]](void *const *data, void *) {
    const uint8_t *x = static_cast<const uint8_t *>(data[0]);
    int64_t *out = static_cast<int64_t *>(data[1]);
    const int64_t columns = g.rank ? g.dims[g.rank - 1] : 1, step = g.rank ? g.strides[g.rank - 1] : 0;
    int64_t found = 0;
    for (int64_t line = 0; columns && line < total / columns; ++line) {
      int64_t rest = line, offset = 0;
      for (int d = g.rank - 2; d >= 0; --d) {
        offset += rest % g.dims[d] * g.strides[d];
        rest /= g.dims[d];
      }
      for (int64_t j = 0; j < columns; ++j) {
        if (!x[offset + j * step]) continue;
        if (found < n) out[found * stride] = line * columns + j;
        ++found;
      }
    }
    if (found != n)
      throw Invalid("[nonzero] out: got room for " + std::to_string(n) + ", expected " + std::to_string(found) +
                    ", the number of true elements");
  });
}

}  // namespace

void add_indexing(KernelRows &rows) {
  rows.push_back({"gather", kAllBits, make_gather});
  rows.push_back({"scatter", kAllBits, make_scatter});
  rows.push_back({"scatter_add", kNumberBits, make_scatter_add});
  rows.push_back({"nonzero", HAL_DTYPE_BIT(HAL_BOOL), make_nonzero});
}

}  // namespace cpu
