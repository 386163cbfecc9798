#include "loaded_program.h"

#include <cstring>

namespace cli {
namespace {

void fill(std::vector<unsigned char>& bytes, const aster_ml_program_array& array) {
  if (aster_ml_dtype_is_float(array.dtype) != 1) return;
  const size_t size = aster_ml_dtype_size(array.dtype), count = size == 0 ? 0 : bytes.size() / size;
  aster_ml_scalar value{};
  for (size_t i = 0; i < count; ++i) {
    check(aster_ml_scalar_from_double(&value, array.dtype,
                                      static_cast<double>((i * 37) % 127) / 64 - 1));
    std::memcpy(&bytes[i * size], value.value, size);
  }
}

Tensor make(const Context& context, const Program& program, int32_t list, size_t index) {
  aster_ml_program_array array{};
  array.struct_size = sizeof(array);
  check(aster_ml_program_get_array(&array, program.get(), list, index));
  std::vector<unsigned char> bytes(array.bytes);
  if (list == ASTER_ML_PROGRAM_INPUTS) fill(bytes, array);
  Tensor out;
  const std::vector<size_t> shape(array.shape, array.shape + array.ndim);
  check(aster_ml_tensor_from_data(out.get(), context.get(), bytes.data(), array.dtype, array.ndim,
                                  shape.data()));
  return out;
}

}  // namespace

LoadedProgram::LoadedProgram(const Context& context, const std::string& path) {
  check(aster_ml_program_load(program_.get(), context.get(), path.c_str()));
  for (const int32_t list : {ASTER_ML_PROGRAM_INPUTS, ASTER_ML_PROGRAM_OUTPUTS}) {
    const size_t count = aster_ml_program_count_arrays(program_.get(), list);
    for (size_t i = 0; i < count; ++i) {
      arrays_[list].push_back(make(context, program_, list, i));
      given_[list].push_back(*arrays_[list].back().get());
    }
  }
}

void LoadedProgram::run() {
  check(aster_ml_program_run(program_.get(), nullptr, given_[0].data(), given_[0].size(),
                             given_[1].data(), given_[1].size()));
}

}  // namespace cli
