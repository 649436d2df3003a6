#include "elementwise.hpp"

#include <algorithm>
#include <cstring>

#include "halves.hpp"
#include "streaming.hpp"

namespace cpu {
namespace {

constexpr int kMaxInputs = 3;
constexpr int64_t kBlock = 1024;   // elements that pass through the buffers at once: all buffers stay in L1
constexpr int64_t kLongRun = 256;  // inner dimensions from this length are walked run by run

enum class Convert : uint8_t { kNone, kF16, kBF16 };

void widen(Convert convert, int64_t n, float *out, const void *in) {
  const auto *halves = static_cast<const uint16_t *>(in);
  if (convert == Convert::kF16) f16_to_f32(n, out, halves);
  if (convert == Convert::kBF16) bf16_to_f32(n, out, halves);
}

void narrow(Convert convert, int64_t n, void *out, const float *in) {
  auto *halves = static_cast<uint16_t *>(out);
  if (convert == Convert::kF16) f32_to_f16(n, halves, in);
  if (convert == Convert::kBF16) f32_to_bf16(n, halves, in);
}

// Strided runs of elements that are only moved.
template <class T>
void move_run(int64_t n, char *to, int64_t to_step, const char *from, int64_t from_step) {
  if (to_step == sizeof(T) && from_step == sizeof(T)) {
    std::memcpy(to, from, size_t(n) * sizeof(T));
    return;
  }
  if (to_step == sizeof(T) && from_step == 0) {
    T value;
    std::memcpy(&value, from, sizeof(T));
    std::fill_n(reinterpret_cast<T *>(to), n, value);
    return;
  }
  for (int64_t i = 0; i < n; ++i) *reinterpret_cast<T *>(to + i * to_step) = *reinterpret_cast<const T *>(from + i * from_step);
}

void move_run(int64_t size, int64_t n, char *to, int64_t to_step, const char *from, int64_t from_step) {
  switch (size) {
    case 1:
      return move_run<uint8_t>(n, to, to_step, from, from_step);
    case 2:
      return move_run<uint16_t>(n, to, to_step, from, from_step);
    case 4:
      return move_run<uint32_t>(n, to, to_step, from, from_step);
    default:
      return move_run<uint64_t>(n, to, to_step, from, from_step);
  }
}

struct Operand {
  Walk walk{};
  int64_t size = 0;       // bytes of an element in memory
  int64_t loop_size = 0;  // bytes of an element in the loops
  Convert convert = Convert::kNone;
  bool linear = false;  // element i of the merged order lies at i * size
  bool scalar = false;  // one element for all
};

class Elementwise final : public Kernel {
 public:
  explicit Elementwise(const ElementwiseSpec &spec);
  void run(void *const *data, void *workspace) const override;

 private:
  struct Buffers {
    alignas(64) char storage[kBlock * 8];
    alignas(64) char input[kMaxInputs][kBlock * 8];
    alignas(64) char output[kBlock * 8];
  };
  struct Place {
    int64_t index[HAL_MAX_RANK];
  };

  void run_piece(void *const *data, int64_t begin, int64_t end, bool stream_out) const;
  Place place_of(int64_t position) const;
  int64_t offset(const Operand &operand, const Place &place) const;
  const void *fetch(const Operand &operand, char *data, const Place &place, int64_t position, int64_t n, bool *scalar, char *storage,
                    char *buffer) const;
  template <class Body>
  void walk_rows(const Operand &operand, const Place &place, int64_t n, Body &&body) const;

  const Loops *loops_;
  int inputs_;
  int rank_ = 1;
  int64_t dims_[HAL_MAX_RANK];
  int64_t total_;
  int64_t grain_;
  Operand operands_[kMaxInputs + 1];
  bool direct_;  // nothing to gather, widen or round
  bool runs_;    // walk run by run, not block by block
  int direct_variant_ = 0;
};

Elementwise::Elementwise(const ElementwiseSpec &spec) : loops_(spec.loops), inputs_(spec.num_inputs), grain_(spec.grain) {
  const hal_operand &out = spec.operands[inputs_];
  const int rank = int(out.rank);
  total_ = element_count(out);
  std::copy_n(out.dims, rank, dims_);
  const auto reject = [&](int k, const std::string &what) {
    throw Invalid(std::string("[") + spec.name + "] operand " + std::to_string(k) + ": " + what);
  };
  for (int k = 0; k <= inputs_; ++k) {
    const hal_operand &o = spec.operands[k];
    Operand &mine = operands_[k];
    mine.size = dtype_size(o.dtype);
    mine.loop_size = dtype_size(spec.loop_dtypes[k]);
    if (o.dtype != spec.loop_dtypes[k]) mine.convert = o.dtype == HAL_F16 ? Convert::kF16 : Convert::kBF16;
    if (o.flags & HAL_OPERAND_IMMEDIATE) continue;  // all strides 0
    if (int(o.rank) > rank) reject(k, "rank " + std::to_string(o.rank) + " is larger than the output's, " + std::to_string(rank));
    for (int d = 0; d < int(o.rank); ++d) {
      const int to = rank - int(o.rank) + d;
      if (o.dims[d] == dims_[to])
        mine.walk.strides[to] = dims_[to] == 1 ? 0 : o.strides[d] * mine.size;
      else if (o.dims[d] != 1)
        reject(k, "dimension " + std::to_string(d) + " doesn't broadcast: got " + std::to_string(o.dims[d]) + ", expected " +
                      std::to_string(dims_[to]) + " or 1");
    }
  }

  Walk *walks[kMaxInputs + 1] = {&operands_[inputs_].walk};
  for (int k = 0; k < inputs_; ++k) walks[k + 1] = &operands_[k].walk;
  rank_ = merge_dimensions(rank, dims_, walks, inputs_ + 1, true);

  direct_ = true;
  for (int k = 0; k <= inputs_; ++k) {
    Operand &o = operands_[k];
    o.linear = rank_ == 1 && (o.walk.strides[0] == o.size || total_ == 1);
    o.scalar = k < inputs_ && std::all_of(o.walk.strides, o.walk.strides + rank_, [](int64_t s) { return s == 0; });
    if (o.convert != Convert::kNone || !(o.linear || o.scalar)) direct_ = false;
    if (o.scalar && !o.linear) direct_variant_ |= 1 << k;
  }
  if (loops_->variant[direct_variant_] == nullptr) direct_ = false;
  runs_ = dims_[rank_ - 1] >= kLongRun;
}

Elementwise::Place Elementwise::place_of(int64_t position) const {
  Place place;
  for (int d = rank_ - 1; d >= 0; --d) {
    place.index[d] = position % dims_[d];
    position /= dims_[d];
  }
  return place;
}

int64_t Elementwise::offset(const Operand &operand, const Place &place) const {
  int64_t sum = 0;
  for (int d = 0; d < rank_; ++d) sum += place.index[d] * operand.walk.strides[d];
  return sum;
}

// body(address offset, first element, elements) for each stretch of the inner dimension that n elements from `place` cover.
template <class Body>
void Elementwise::walk_rows(const Operand &operand, const Place &place, int64_t n, Body &&body) const {
  Place at = place;
  const int inner = rank_ - 1;
  int64_t bytes = offset(operand, at);
  for (int64_t done = 0; done < n;) {
    const int64_t count = std::min(n - done, dims_[inner] - at.index[inner]);
    body(bytes, done, count);
    done += count;
    bytes -= at.index[inner] * operand.walk.strides[inner];
    at.index[inner] = 0;
    for (int d = inner - 1; d >= 0; --d) {
      bytes += operand.walk.strides[d];
      if (++at.index[d] < dims_[d]) break;
      bytes -= dims_[d] * operand.walk.strides[d];
      at.index[d] = 0;
    }
  }
}

// Elements [position, position + n) of an input, as the loops want them: in place if possible, else in `buffer`.
const void *Elementwise::fetch(const Operand &o, char *data, const Place &place, int64_t position, int64_t n, bool *scalar, char *storage,
                               char *buffer) const {
  const char *from;
  const int64_t step = o.walk.strides[rank_ - 1];
  *scalar = o.scalar || (runs_ && step == 0);
  if (*scalar) {
    from = data + offset(o, place);
    n = 1;
  } else if (o.linear) {
    from = data + position * o.size;
  } else if (runs_ && step == o.size) {
    from = data + offset(o, place);
  } else {
    char *to = o.convert == Convert::kNone ? buffer : storage;
    walk_rows(o, place, n, [&](int64_t bytes, int64_t first, int64_t count) {
      move_run(o.size, count, to + first * o.size, o.size, data + bytes, step);
    });
    from = to;
  }
  if (o.convert == Convert::kNone) return from;
  widen(o.convert, n, reinterpret_cast<float *>(buffer), from);
  return buffer;
}

void Elementwise::run_piece(void *const *data, int64_t begin, int64_t end, bool stream_out) const {
  Buffers buffers;
  const Operand &out = operands_[inputs_];
  char *const out_data = static_cast<char *>(data[inputs_]);
  const int64_t inner = dims_[rank_ - 1], out_step = out.walk.strides[rank_ - 1];
  const bool out_in_place = out.convert == Convert::kNone && (out.linear || (runs_ && out_step == out.size));
  for (int64_t at = begin; at < end;) {
    const Place place = place_of(at);
    int64_t n = std::min(end - at, kBlock);
    if (runs_) n = std::min(n, inner - place.index[rank_ - 1]);

    const void *in[kMaxInputs];
    int variant = 0;
    for (int k = 0; k < inputs_; ++k) {
      bool scalar;
      in[k] = fetch(operands_[k], static_cast<char *>(data[k]), place, at, n, &scalar, buffers.storage, buffers.input[k]);
      if (scalar) variant |= 1 << k;
    }
    if (loops_->variant[variant] == nullptr) {  // spread the scalars out
      for (int k = 0; k < inputs_; ++k) {
        if (!(variant >> k & 1)) continue;
        char value[8];
        std::memcpy(value, in[k], size_t(operands_[k].loop_size));
        move_run(operands_[k].loop_size, n, buffers.input[k], operands_[k].loop_size, value, 0);
        in[k] = buffers.input[k];
      }
      variant = 0;
    }

    char *const target = out.linear ? out_data + at * out.size : out_data + offset(out, place);
    if (out_in_place && !stream_out) {
      loops_->variant[variant](n, target, in);
    } else {
      loops_->variant[variant](n, buffers.output, in);
      char *from = buffers.output;
      if (out.convert != Convert::kNone) {
        from = out.linear && !stream_out ? target : buffers.storage;
        narrow(out.convert, n, from, reinterpret_cast<const float *>(buffers.output));
      }
      if (stream_out)
        stream_copy(target, from, n * out.size);
      else if (from != target)
        walk_rows(out, place, n, [&](int64_t bytes, int64_t first, int64_t count) {
          move_run(out.size, count, out_data + bytes, out_step, from + first * out.size, out.size);
        });
    }
    at += n;
  }
  if (stream_out) stream_fence();
}

void Elementwise::run(void *const *data, void *) const {
  const Operand &out = operands_[inputs_];
  bool in_place = false;
  for (int k = 0; k < inputs_; ++k) in_place |= data[k] == data[inputs_];
  const bool stream_out = out.linear && !in_place && total_ * out.size >= kStreamFrom;
  if (!direct_ || stream_out) {
    parallel_for(total_, grain_, [&](int64_t begin, int64_t end) { run_piece(data, begin, end, stream_out); });
    return;
  }
  const Loop loop = loops_->variant[direct_variant_];
  parallel_for(total_, grain_, [&](int64_t begin, int64_t end) {
    const void *in[kMaxInputs];
    for (int k = 0; k < inputs_; ++k)
      in[k] = static_cast<const char *>(data[k]) + (direct_variant_ >> k & 1 ? 0 : begin * operands_[k].size);
    loop(end - begin, static_cast<char *>(data[inputs_]) + begin * out.size, in);
  });
}

}  // namespace

int64_t dtype_size(hal_dtype dtype) {
  switch (dtype) {
    case HAL_I16:
    case HAL_F16:
    case HAL_BF16:
      return 2;
    case HAL_I32:
    case HAL_F32:
      return 4;
    case HAL_I64:
    case HAL_F64:
      return 8;
    default:
      return 1;
  }
}

const char *dtype_name(hal_dtype dtype) {
  static const char *const names[] = {"?", "bool", "u8", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64"};
  return dtype > 0 && dtype < HAL_DTYPE_COUNT ? names[dtype] : names[0];
}

int merge_dimensions(int rank, int64_t *dims, Walk *const *walks, int num_walks, bool sort) {
  int kept = 0;
  for (int d = 0; d < rank; ++d) {
    if (dims[d] == 1) continue;
    dims[kept] = dims[d];
    for (int w = 0; w < num_walks; ++w) walks[w]->strides[kept] = walks[w]->strides[d];
    ++kept;
  }
  // Should dimension a lie outside of b? The first walk that can tell decides.
  const auto outside = [&](int a, int b) {
    for (int w = 0; w < num_walks; ++w) {
      const int64_t x = std::abs(walks[w]->strides[a]), y = std::abs(walks[w]->strides[b]);
      if (x != 0 && y != 0 && x != y) return x > y;
    }
    return a < b;
  };
  for (int i = 1; sort && i < kept; ++i)
    for (int j = i; j > 0 && !outside(j - 1, j); --j) {
      std::swap(dims[j - 1], dims[j]);
      for (int w = 0; w < num_walks; ++w) std::swap(walks[w]->strides[j - 1], walks[w]->strides[j]);
    }
  int last = 0;
  for (int d = 1; d < kept; ++d) {
    bool continues = true;
    for (int w = 0; w < num_walks; ++w) continues &= walks[w]->strides[last] == walks[w]->strides[d] * dims[d];
    if (continues) {
      dims[last] *= dims[d];
    } else {
      ++last;
      dims[last] = dims[d];
    }
    for (int w = 0; w < num_walks; ++w) walks[w]->strides[last] = walks[w]->strides[d];
  }
  if (kept == 0) {
    dims[0] = 1;
    for (int w = 0; w < num_walks; ++w) walks[w]->strides[0] = 0;
  }
  return last + 1;
}

std::unique_ptr<Kernel> make_elementwise(const ElementwiseSpec &spec) { return std::make_unique<Elementwise>(spec); }

}  // namespace cpu
