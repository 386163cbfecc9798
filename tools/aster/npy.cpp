#include "npy.h"

#include <algorithm>
#include <cstring>

namespace cli {
namespace {

struct Code {
  const char* text;
  int32_t dtype;
};
constexpr Code kCodes[] = {
    {"|b1", ASTER_ML_DTYPE_BOOL},    {"|i1", ASTER_ML_DTYPE_INT8},
    {"|u1", ASTER_ML_DTYPE_UINT8},   {"<i2", ASTER_ML_DTYPE_INT16},
    {"<u2", ASTER_ML_DTYPE_UINT16},  {"<i4", ASTER_ML_DTYPE_INT32},
    {"<u4", ASTER_ML_DTYPE_UINT32},  {"<i8", ASTER_ML_DTYPE_INT64},
    {"<u8", ASTER_ML_DTYPE_UINT64},  {"<f2", ASTER_ML_DTYPE_FLOAT16},
    {"<f4", ASTER_ML_DTYPE_FLOAT32}, {"<f8", ASTER_ML_DTYPE_FLOAT64},
};
constexpr char kMagic[] = "\x93NUMPY";

// What stands behind a key of the header.
std::string entry(const std::string& header, const std::string& key) {
  const size_t at = header.find("'" + key + "':");
  if (at == std::string::npos) throw Failure{1, "an array's header lacks " + key};
  const size_t begin = header.find_first_not_of(' ', at + key.size() + 3);
  const size_t end = begin == std::string::npos ? begin
                     : header[begin] == '('     ? header.find(')', begin)
                                                : header.find_first_of(",}", begin);
  if (end == std::string::npos) throw Failure{1, "an array's header ends within " + key};
  return header.substr(begin, end - begin);
}

std::vector<int64_t> sizes_of(const std::string& text) {
  std::vector<int64_t> out;
  for (size_t at = 1; at < text.size();) {
    char* end = nullptr;
    const long long size = std::strtoll(text.c_str() + at, &end, 10);
    const auto next = static_cast<size_t>(end - text.c_str());
    if (next == at) break;
    out.push_back(size);
    at = next + 1;
  }
  return out;
}

}  // namespace

Lazy from_npy(const Context& context, const std::string& bytes) {
  const bool known = bytes.size() > 12 && std::memcmp(bytes.data(), kMagic, 6) == 0 &&
                     bytes[6] >= 1 && bytes[6] <= 3;
  if (!known) throw Failure{1, "no array of NumPy"};
  const size_t width = bytes[6] == 1 ? 2 : 4;
  uint32_t size = 0;
  std::memcpy(&size, bytes.data() + 8, width);
  const size_t begin = 8 + width;
  if (size > bytes.size() - begin) throw Failure{1, "an array's header is cut off"};
  const std::string header = bytes.substr(begin, size);
  // The first axis is the fastest: its transpose is row-major.
  const bool turned = entry(header, "fortran_order") == "True";
  const std::string descr = entry(header, "descr");
  const std::vector<int64_t> shape = sizes_of(entry(header, "shape"));
  for (const Code& code : kCodes) {
    if (descr != std::string("'") + code.text + "'") continue;
    uint64_t expected = aster_ml_dtype_size(code.dtype);
    for (const int64_t dim : shape) {
      if (dim < 0 || __builtin_mul_overflow(expected, static_cast<uint64_t>(dim), &expected)) {
        throw Failure{1, "an array's shape overflows"};
      }
    }
    if (expected != bytes.size() - begin - size) throw Failure{1, "an array is cut off"};
    std::vector<size_t> dims(shape.begin(), shape.end());
    if (turned) std::reverse(dims.begin(), dims.end());
    Tensor tensor;
    check(aster_ml_tensor_from_data(tensor.get(), context.get(), bytes.data() + begin + size,
                                    code.dtype, dims.size(), dims.data()));
    Lazy out;
    check(aster_ml_lazy_from_tensor(out.get(), context.get(), tensor.get()));
    if (!turned || dims.size() < 2) return out;
    std::vector<int64_t> axes;
    for (size_t i = dims.size(); i-- > 0;) axes.push_back(static_cast<int64_t>(i));
    Lazy permuted;
    check(aster_ml_lazy_permute(permuted.get(), out.get(), axes.size(), axes.data()));
    return permuted;
  }
  throw Failure{2, "an array of dtype " + descr};
}

std::string to_npy(Lazy& tensor) {
  const int32_t dtype = aster_ml_lazy_dtype(tensor.get());
  for (const Code& code : kCodes) {
    if (code.dtype != dtype) continue;
    std::string header =
        std::string("{'descr': '") + code.text + "', 'fortran_order': False, 'shape': (";
    for (size_t i = 0; i < aster_ml_lazy_ndim(tensor.get()); ++i) {
      header += std::to_string(aster_ml_lazy_dim(tensor.get(), static_cast<int64_t>(i))) + ",";
    }
    header += "), }";
    header.resize((10 + header.size() + 1 + 63) / 64 * 64 - 10 - 1, ' ');
    header += '\n';
    std::string out(kMagic, 6);
    out += std::string("\x01\x00", 2);
    out += static_cast<char>(header.size() & 255);
    out += static_cast<char>(header.size() >> 8);
    out += header;
    const size_t begin = out.size();
    const auto count = static_cast<size_t>(aster_ml_lazy_count(tensor.get()));
    out.resize(begin + count * aster_ml_dtype_size(dtype));
    check(aster_ml_lazy_copy_out(out.data() + begin, out.size() - begin, tensor.get()));
    return out;
  }
  throw Failure{2,
                std::string("a tensor of ") + aster_ml_dtype_name(dtype) + " as an array of NumPy"};
}

namespace {

uint32_t crc_of(const std::string& bytes) {
  uint32_t crc = ~0u;
  for (const char c : bytes) {
    crc ^= static_cast<uint8_t>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xEDB88320u : 0u);
  }
  return ~crc;
}

void put(std::string& out, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i, value >>= 8) out += static_cast<char>(value & 255);
}

}  // namespace

std::string to_zip(const Members& members) {
  std::string out, directory;
  for (const auto& [name, bytes] : members) {
    if (bytes.size() + out.size() + name.size() > 0xFFFFFF00u || name.size() > 0xFFFF)
      throw Failure{2, "'" + name + "' is too large for an archive"};
    std::string fields;  // what the file's header and its entry have in common
    put(fields, 20, 2);
    put(fields, 0x800, 2);  // names are UTF-8
    put(fields, 0, 2);      // stored
    put(fields, 0x00210000, 4);
    put(fields, crc_of(bytes), 4);
    put(fields, bytes.size(), 4);
    put(fields, bytes.size(), 4);
    put(fields, name.size(), 2);
    put(fields, 0, 2);
    put(directory, 0x02014b50, 4);
    put(directory, 20, 2);
    directory += fields;
    put(directory, 0, 10);
    put(directory, out.size(), 4);
    directory += name;
    put(out, 0x04034b50, 4);
    out += fields + name + bytes;
  }
  const size_t begin = out.size();
  out += directory;
  put(out, 0x06054b50, 4);
  put(out, 0, 4);
  put(out, members.size(), 2);
  put(out, members.size(), 2);
  put(out, directory.size(), 4);
  put(out, begin, 4);
  put(out, 0, 2);
  return out;
}

std::string member_of(const Context& context, const std::string& archive, const std::string& name) {
  State state;
  check(aster_ml_state_read_zip(state.get(), context.get(), archive.c_str()));
  Lazy bytes;
  const int32_t status = aster_ml_state_get(bytes.get(), state.get(), name.c_str());
  if (status == ASTER_ML_NOT_FOUND) throw Failure{1, "'" + archive + "' has no '" + name + "'"};
  check(status);
  std::string out(static_cast<size_t>(aster_ml_lazy_count(bytes.get())), '\0');
  check(aster_ml_lazy_copy_out(out.data(), out.size(), bytes.get()));
  return out;
}

}  // namespace cli
