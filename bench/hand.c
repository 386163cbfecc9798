#include "hand.h"

#include <time.h>
#ifdef __SSE2__
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
enum { kLanes = 16 };
#elif defined(__AVX__)
enum { kLanes = 8 };
#else
enum { kLanes = 4 };
#endif

typedef float vec __attribute__((vector_size(4 * kLanes), aligned(4)));
typedef int mask __attribute__((vector_size(4 * kLanes), aligned(4)));

static inline vec load(const float *p) { return *(const vec *)p; }
static inline void store(float *p, vec v) { *(vec *)p = v; }
static inline vec spread(float x) { return x - (vec){0}; }
#ifndef __AVX__
static inline vec pick(mask m, vec a, vec b) { return (vec)((m & (mask)a) | (~m & (mask)b)); }
#endif
#if defined(__AVX512F__)
static inline vec larger(vec a, vec b) { return (vec)_mm512_max_ps((__m512)a, (__m512)b); }
static inline vec smaller(vec a, vec b) { return (vec)_mm512_min_ps((__m512)a, (__m512)b); }
#elif defined(__AVX__)
static inline vec larger(vec a, vec b) { return (vec)_mm256_max_ps((__m256)a, (__m256)b); }
static inline vec smaller(vec a, vec b) { return (vec)_mm256_min_ps((__m256)a, (__m256)b); }
#else
static inline vec larger(vec a, vec b) { return pick(a > b, a, b); }
static inline vec smaller(vec a, vec b) { return pick(a < b, a, b); }
#endif

static inline void stream(float *p, vec v) {
#if defined(__AVX512F__)
  _mm512_stream_ps(p, (__m512)v);
#elif defined(__AVX__)
  _mm256_stream_ps(p, (__m256)v);
#elif defined(__SSE2__)
  _mm_stream_ps(p, (__m128)v);
#else
  store(p, v);
#endif
}

// Past the cache where out allows it: large results are not read next.
static inline void put(float *p, vec v, int past) {
  if (past) {
    stream(p, v);
  } else {
    store(p, v);
  }
}

static inline vec exp_of(vec x) {
  vec z = smaller(larger(x, spread(-87.33654f)), spread(88.02969f));
  vec t = z * 1.44269504f + 12582912.0f;
  mask n = (mask)t - 0x4B400000;
  vec k = t - 12582912.0f;
  vec r = z - k * 0.693359375f + k * 2.12194440e-4f;
  vec p = r * 1.9875691500e-4f + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  return p * (vec)((n + 127) << 23);
}

void hand_add(float *out, const float *x, const float *y, size_t count) {
  for (size_t i = 0; i < count; i += 2 * kLanes) {
    store(out + i, load(x + i) + load(y + i));
    store(out + i + kLanes, load(x + i + kLanes) + load(y + i + kLanes));
  }
}

void hand_add_stream(float *out, const float *x, const float *y, size_t count) {
  if ((size_t)out % 64 != 0) {
    hand_add(out, x, y, count);
    return;
  }
  for (size_t i = 0; i < count; i += kLanes) stream(out + i, load(x + i) + load(y + i));
}

void hand_add_bytes(void *out, const void *x, const void *y, size_t count) {
  unsigned char *to = out;
  const unsigned char *a = x, *b = y;
  for (size_t i = 0; i < count; ++i) to[i] = (unsigned char)(a[i] + b[i]);
}

float hand_sum(const float *x, size_t count) {
  vec a = {0}, b = {0}, c = {0}, d = {0};
  for (size_t i = 0; i < count; i += 4 * kLanes) {
    a += load(x + i);
    b += load(x + i + kLanes);
    c += load(x + i + 2 * kLanes);
    d += load(x + i + 3 * kLanes);
  }
  a = (a + b) + (c + d);
  float sum = 0;
  for (int i = 0; i < kLanes; ++i) sum += a[i];
  return sum;
}

void hand_gelu(float *out, const float *x, const float *a, const float *b, const float *c,
               size_t rows, size_t columns) {
  const int past = (size_t)out % 64 == 0;
  for (size_t r = 0; r < rows; ++r, x += columns, out += columns) {
    for (size_t i = 0; i < columns; i += kLanes) {
      vec u = load(x + i) * load(a + i) + load(b + i);
      vec e = exp_of(u * (-1.5957691216f - 0.0713548162f * (u * u)));
      put(out + i, u / (1.0f + e) * load(c + i), past);
    }
  }
}

void hand_softmax(float *out, const float *x, size_t rows, size_t columns) {
  static float row[16384] __attribute__((aligned(64)));
  const int past = (size_t)out % 64 == 0;
  for (size_t r = 0; r < rows; ++r, x += columns, out += columns) {
    vec m0 = load(x), m1 = m0, s0 = {0}, s1 = {0};
    for (size_t i = 0; i < columns; i += 2 * kLanes) {
      m0 = larger(load(x + i), m0);
      m1 = larger(load(x + i + kLanes), m1);
    }
    m0 = larger(m0, m1);
    float most = m0[0], sum = 0;
    for (int i = 1; i < kLanes; ++i) most = m0[i] > most ? m0[i] : most;
    for (size_t i = 0; i < columns; i += 2 * kLanes) {
      vec e0 = exp_of(load(x + i) - most), e1 = exp_of(load(x + i + kLanes) - most);
      store(row + i, e0);
      store(row + i + kLanes, e1);
      s0 += e0;
      s1 += e1;
    }
    s0 += s1;
    for (int i = 0; i < kLanes; ++i) sum += s0[i];
    for (size_t i = 0; i < columns; i += kLanes) put(out + i, load(row + i) * (1 / sum), past);
  }
}

double hand_peak(void) {
  enum { kChains = 12, kRounds = 200000 };
  vec sums[kChains];
  for (int i = 0; i < kChains; ++i) sums[i] = spread((float)i * 1e-3f);
  vec factor = spread(0.999999f), more = spread(1e-6f);
  double best = 0;
  for (int attempt = 0; attempt < 5; ++attempt) {
    struct timespec begin, end;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
    vec s0 = sums[0], s1 = sums[1], s2 = sums[2], s3 = sums[3], s4 = sums[4], s5 = sums[5],
        s6 = sums[6], s7 = sums[7], s8 = sums[8], s9 = sums[9], s10 = sums[10], s11 = sums[11];
    for (int i = 0; i < kRounds; ++i) {
      s0 = s0 * factor + more, s1 = s1 * factor + more, s2 = s2 * factor + more;
      s3 = s3 * factor + more, s4 = s4 * factor + more, s5 = s5 * factor + more;
      s6 = s6 * factor + more, s7 = s7 * factor + more, s8 = s8 * factor + more;
      s9 = s9 * factor + more, s10 = s10 * factor + more, s11 = s11 * factor + more;
    }
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
    sums[0] = s0 + s1 + s2 + s3 + s4 + s5 + s6 + s7 + s8 + s9 + s10 + s11;
    __asm__ volatile("" : : "m"(sums));
    double seconds =
        (double)(end.tv_sec - begin.tv_sec) + 1e-9 * (double)(end.tv_nsec - begin.tv_nsec);
    double rate = 2.0 * kLanes * kChains * kRounds / seconds / 1e9;
    best = rate > best ? rate : best;
  }
  return best;
}
