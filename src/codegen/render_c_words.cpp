// What C and OpenCL C write differently in expressions.
#include "codegen/render_c_writer.h"

namespace aster::codegen::program::c {

Text& Writer::open_vector(DType d, int n) {
  out_ << '(';
  type(d, n);
  return out_ << (opencl() ? ")(" : "){");
}

Text& Writer::zero(DType d, int n) {
  open_vector(d, n) << '0';
  return close_vector();
}

Text& Writer::lane_suffix(int lane) {
  if (opencl())
    return out_ << ".s"
                << "0123456789abcdef"[lane];
  return out_ << '[' << int32_t{lane} << ']';
}

Text& Writer::reinterpret(DType d, int n) {
  const bool value = n == 1 && !dtype::is_float(stored(d));
  out_ << (opencl() && !value ? "as_" : "(");
  type(d, n);
  return opencl() && !value ? out_ : out_ << ')';
}

}  // namespace aster::codegen::program::c
