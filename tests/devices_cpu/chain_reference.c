/* A slow, independent reading of docs/numerics.md sections 7 to 9: explicit loops over contiguous arrays, the C library's exact fma.
 * Instantiated for float and double by including this file in itself. Optimised as little as tests can bear; never contracted. */
#ifndef TYPE
#include <math.h>
#include <stdint.h>

typedef struct {
  int64_t n, c, h, w, o, kh, kw, oh, ow, stride[2], padding[2], dilation[2], groups;
} conv;

#define TYPE float
#define FMA fmaf
#define NAME(f) f##_f32
#include "chain_reference.c"
#undef TYPE
#undef FMA
#undef NAME
#define TYPE double
#define FMA fma
#define NAME(f) f##_f64
#include "chain_reference.c"
#else

/* a (m, k), b (k, n), out (m, n) */
void NAME(matmul)(const TYPE *a, const TYPE *b, TYPE *out, int64_t m, int64_t n, int64_t k) {
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      TYPE result = 0;
      for (int64_t first = 0; first < k; first += 512) {
        TYPE acc = 0;
        for (int64_t p = first; p < k && p < first + 512; ++p) acc = FMA(a[i * k + p], b[p * n + j], acc);
        acc = acc + (TYPE)0;
        result = first == 0 ? acc : result + acc;
      }
      out[i * n + j] = result;
    }
}

static TYPE NAME(pixel)(const TYPE *x, const conv *s, int64_t n, int64_t c, int64_t y, int64_t z) {
  if (y < 0 || y >= s->h || z < 0 || z >= s->w) return 0;
  return x[((n * s->c + c) * s->h + y) * s->w + z];
}

void NAME(conv2d)(const TYPE *x, const TYPE *weight, TYPE *out, const conv *s) {
  const int64_t cg = s->c / s->groups, og = s->o / s->groups;
  int64_t blocks = 512 / (16 * s->kh * s->kw);
  if (blocks < 1) blocks = 1;
  for (int64_t n = 0; n < s->n; ++n)
    for (int64_t o = 0; o < s->o; ++o)
      for (int64_t oh = 0; oh < s->oh; ++oh)
        for (int64_t ow = 0; ow < s->ow; ++ow) {
          TYPE result = 0;
          for (int64_t b0 = 0; b0 * 16 < cg; b0 += blocks) {
            TYPE acc = 0;
            for (int64_t b = b0; b < b0 + blocks; ++b)
              for (int64_t kh = 0; kh < s->kh; ++kh)
                for (int64_t kw = 0; kw < s->kw; ++kw)
                  for (int64_t c = b * 16; c < b * 16 + 16 && c < cg; ++c)
                    acc = FMA(NAME(pixel)(x, s, n, o / og * cg + c, oh * s->stride[0] - s->padding[0] + kh * s->dilation[0],
                                          ow * s->stride[1] - s->padding[1] + kw * s->dilation[1]),
                              weight[((o * cg + c) * s->kh + kh) * s->kw + kw], acc);
            acc = acc + (TYPE)0;
            result = b0 == 0 ? acc : result + acc;
          }
          out[((n * s->o + o) * s->oh + oh) * s->ow + ow] = result;
        }
}

void NAME(conv2d_input_grad)(const TYPE *g, const TYPE *weight, TYPE *out, const conv *s) {
  const int64_t cg = s->c / s->groups, og = s->o / s->groups;
  int64_t blocks = 512 / (16 * s->kh * s->kw);
  if (blocks < 1) blocks = 1;
  for (int64_t n = 0; n < s->n; ++n)
    for (int64_t c = 0; c < s->c; ++c)
      for (int64_t ih = 0; ih < s->h; ++ih)
        for (int64_t iw = 0; iw < s->w; ++iw) {
          TYPE result = 0;
          for (int64_t b0 = 0; b0 * 16 < og; b0 += blocks) {
            TYPE acc = 0;
            for (int64_t b = b0; b < b0 + blocks; ++b)
              for (int64_t kh = 0; kh < s->kh; ++kh)
                for (int64_t kw = 0; kw < s->kw; ++kw)
                  for (int64_t i = b * 16; i < b * 16 + 16 && i < og; ++i) {
                    const int64_t o = c / cg * og + i;
                    const int64_t y = ih + s->padding[0] - kh * s->dilation[0], z = iw + s->padding[1] - kw * s->dilation[1];
                    if (y < 0 || z < 0 || y % s->stride[0] || z % s->stride[1] || y / s->stride[0] >= s->oh || z / s->stride[1] >= s->ow)
                      continue;
                    acc = FMA(g[((n * s->o + o) * s->oh + y / s->stride[0]) * s->ow + z / s->stride[1]],
                              weight[((o * cg + c % cg) * s->kh + kh) * s->kw + kw], acc);
                  }
            acc = acc + (TYPE)0;
            result = b0 == 0 ? acc : result + acc;
          }
          out[((n * s->c + c) * s->h + ih) * s->w + iw] = result;
        }
}

void NAME(conv2d_weight_grad)(const TYPE *g, const TYPE *x, TYPE *out, const conv *s) {
  const int64_t cg = s->c / s->groups, og = s->o / s->groups, rows = s->n * s->oh;
  int64_t per_chunk = 512 / s->ow;
  if (per_chunk < 1) per_chunk = 1;
  for (int64_t o = 0; o < s->o; ++o)
    for (int64_t c = 0; c < cg; ++c)
      for (int64_t kh = 0; kh < s->kh; ++kh)
        for (int64_t kw = 0; kw < s->kw; ++kw) {
          TYPE result = 0;
          for (int64_t group = 0; group < rows; group += 16 * per_chunk) {
            TYPE group_sum = 0;
            for (int64_t first = group; first < group + 16 * per_chunk && first < rows; first += per_chunk) {
              TYPE acc = 0;
              for (int64_t row = first; row < first + per_chunk && row < rows; ++row)
                for (int64_t ow = 0; ow < s->ow; ++ow) {
                  const int64_t n = row / s->oh, oh = row % s->oh;
                  acc = FMA(g[((n * s->o + o) * s->oh + oh) * s->ow + ow],
                            NAME(pixel)(x, s, n, o / og * cg + c, oh * s->stride[0] - s->padding[0] + kh * s->dilation[0],
                                        ow * s->stride[1] - s->padding[1] + kw * s->dilation[1]),
                            acc);
                }
              acc = acc + (TYPE)0;
              group_sum = first == group ? acc : group_sum + acc;
            }
            result = group == 0 ? group_sum : result + group_sum;
          }
          out[((o * cg + c) * s->kh + kh) * s->kw + kw] = result;
        }
}

#endif
