// Sums of elements of wide floats: the terms are gathered, so that their sum is exact before it is
// rounded once.
#pragma once

#include "base/memory.h"
#include "sparse/elements.h"

namespace aster::sparse {

template <int N>
class ExactSum {
 public:
  using Element = flt::Value<N>;
  explicit ExactSum(Memory& memory) : memory_(memory), terms_(memory), others_(memory) {}
  // Room for so many terms, which adding them needs.
  Status reserve(int64_t terms, bool products) {
    ASTER_TRY(terms_.resize(static_cast<size_t>(terms)));
    return products ? others_.resize(static_cast<size_t>(terms)) : kOk;
  }
  void clear() { count_ = 0; }
  void add(const Element& x) { terms_[count_++] = x; }
  void add(const Element& x, const Element& y) {
    others_[count_] = y;
    terms_[count_++] = x;
  }
  // The sum of the terms, or of the products of pairs of them. Errors: MEMORY.
  Status store(Element* out) const { return sum(out, memory_, terms_.data(), nullptr, count_); }
  Status store_products(Element* out) const {
    return sum(out, memory_, terms_.data(), others_.data(), count_);
  }
  // Of elements that lie one behind the other.
  static Status sum(Element* out, Memory& memory, const Element* x, const Element* y,
                    size_t count) {
    const flt::Caller caller(nullptr, memory);
    const flt::Elements a = elements(x), b = elements(y);
    flt::Limbs<N> made;
    ASTER_TRY(flt::exact_sum<N>(made, caller, a, y == nullptr ? nullptr : &b, count,
                                flt::current_rounding()));
    std::copy_n(made, N, out->w);
    return kOk;
  }

 private:
  static flt::Elements elements(const Element* at) {
    return {reinterpret_cast<const char*>(at), sizeof(Element), sizeof(Element)};
  }
  Memory& memory_;
  Vec<Element> terms_, others_;
  size_t count_ = 0;
};

}  // namespace aster::sparse
