// Signatures of kernels: dtypes and shapes as text.
#include <string_view>

#include "tensor/kernel.h"

namespace aster::tensor {
namespace {

class Reader {
 public:
  Reader(Signature& out, std::string_view text) : out_(out), text_(text) {}

  Status run() {
    ASTER_TRY(values());
    out_.operands = out_.values.size();
    if (!take("->")) return fault("\"->\"");
    ASTER_TRY(values());
    skip();
    if (!text_.empty()) return fault("an end");
    if (out_.values.size() == out_.operands) return fault("a result");
    return kOk;
  }

 private:
  void skip() {
    while (!text_.empty() && text_[0] == ' ') text_.remove_prefix(1);
  }
  bool take(std::string_view what) {
    skip();
    if (text_.substr(0, what.size()) != what) return false;
    text_.remove_prefix(what.size());
    return true;
  }
  Status fault(const char* wanted) const {
    return ASTER_FAIL(kFORMAT, "%s is expected in a kernel's signature before \"%.*s\"", wanted,
                      static_cast<int>(std::min<size_t>(text_.size(), 40)), text_.data());
  }
  static bool is_name(char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  }

  Status values() {
    skip();
    if (text_.empty() || !is_name(text_[0])) return kOk;  // none
    do {
      ASTER_TRY(value());
    } while (take(","));
    return kOk;
  }
  Status value() {
    skip();
    size_t length = 0;
    while (length < text_.size() && is_name(text_[length])) ++length;
    KernelValue value{DType::kNone, false, static_cast<uint32_t>(out_.dims.size()), 0};
    char name[32] = {};
    if (length == 0 || length >= sizeof(name)) return fault("a dtype");
    text_.copy(name, length);
    if (!dtype::from_name(&value.dtype, name).ok() || dtype::is_weak(value.dtype))
      return fault("a dtype");
    if (dtype::is_wide(value.dtype)) {
      return ASTER_FAIL(kDTYPE,
                        "a kernel's signature names %s: kernels compute with no wide floats", name);
    }
    text_.remove_prefix(length);
    if (take("[")) {
      if (take("...")) {
        value.any = true;
        if (!take("]")) return fault("\"]\"");
      } else if (!take("]")) {
        do {
          ASTER_TRY(dim());
        } while (take(","));
        if (!take("]")) return fault("\"]\"");
      }
    }
    value.ndim = static_cast<uint32_t>(out_.dims.size()) - value.first_dim;
    int64_t elements = 0;
    if (!uop::count_elements(out_.shape(value), &elements))
      return ASTER_FAIL(kRANGE, "a kernel's signature: too many elements");
    return out_.values.push(value);
  }
  Status dim() {
    skip();
    int64_t size = 0;
    size_t length = 0;
    for (; length < text_.size() && text_[length] >= '0' && text_[length] <= '9'; ++length) {
      if (!checked_mul(size, int64_t{10}, &size) ||
          !checked_add(size, int64_t{text_[length] - '0'}, &size))
        return fault("a smaller number");
    }
    if (length == 0) return fault("a number");
    text_.remove_prefix(length);
    return out_.dims.push(size);
  }

  Signature& out_;
  std::string_view text_;
};

}  // namespace

Status Signature::read(const char* text) {
  if (text == nullptr) return ASTER_FAIL(kARGUMENT, "the signature is a null pointer");
  ASTER_TRY(Reader(*this, text).run());
  if (operands > uop::Foreign::kMostOperands || results() > uop::Foreign::kMostOperands) {
    return ASTER_FAIL(kUNSUPPORTED, "a kernel of %zu operands and %zu results: at most %zu",
                      operands, results(), uop::Foreign::kMostOperands);
  }
  for (size_t i = 1; i < results(); ++i) {
    if (result(i).dtype != result(0).dtype) {
      return ASTER_FAIL(kUNSUPPORTED, "a kernel's results are %s and %s: one dtype is needed",
                        dtype::name(result(0).dtype), dtype::name(result(i).dtype));
    }
  }
  bool sources = false, products = false;
  for (size_t i = 0; i < values.size(); ++i) (i < operands ? sources : products) |= values[i].any;
  if (products && !sources)
    return ASTER_FAIL(kFORMAT, "a kernel's result is [...], but none of its operands");
  return kOk;
}

bool Signature::any() const {
  for (const KernelValue& value : values) {
    if (value.any) return true;
  }
  return false;
}

bool Signature::all_any() const {
  for (const KernelValue& value : values) {
    if (!value.any) return false;
  }
  return true;
}

int64_t Signature::count(const KernelValue& value, int64_t any) const {
  if (value.any) return any;
  int64_t n = 1;
  for (int64_t dim : shape(value)) n *= dim;
  return n;
}

int64_t Signature::place(size_t i, int64_t any) const {
  const auto line = static_cast<int64_t>(64 / dtype::size(result(0).dtype));
  int64_t at = 0;
  for (size_t k = 0; k < i; ++k) at += (count(result(k), any) + line - 1) / line * line;
  return at;
}

}  // namespace aster::tensor
