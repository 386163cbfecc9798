// Inside the prelude: its elements and functions as tables, and what writes its rows.
#pragma once

#include "codegen/prelude.h"

namespace aster::codegen::prelude {

using dtype::DType;

struct Element {
  DType dtype;
  const char* name;
  DType stored;  // what its vectors hold
  const char* c_type;
};
const Element* element_of(DType d);  // null for those that kernels do not have
const Element* element_named(std::string_view name);
inline DType stored(DType d) { return element_of(d)->stored; }
inline int bytes_of(DType d) { return static_cast<int>(dtype::size(d)); }
inline bool is_real(DType d) { return d == DType::kFloat32 || d == DType::kFloat64; }

// Sets of elements, as the tables name them.
enum Elements : uint16_t {
  F32 = 1,
  F64 = 2,
  FLT = 3,
  SINT = 4,
  UINT = 8,
  INT = 12,
  ALL = 15,
  U32 = 16,
  U64 = 32
};
bool takes(uint16_t elements, DType d);

struct Function {
  std::string_view name;
  uint16_t elements;
};
inline constexpr Function kFunctions[] = {
#define FN(Name, name, arity, elements) {#name, elements},
#include "codegen/prelude_functions.def"
#undef FN
};

void write_typedef(Text& out, DType d, int lanes, bool unaligned);

// A row of the prelude_*.def tables; prelude_math.def explains the columns.
enum Level : uint8_t { SSE = 1, FMA = 2, AVX512 = 4, ANY = 7 };
enum Width : uint8_t { ONE, W16, W32, W64, FULL, VEC, ALLW };

struct Row {
  std::string_view name;
  uint16_t elements;
  uint8_t level;
  Width width;
  std::string_view signature;
  std::string_view text;
};

// Writes each row and type once, what it refers to before it.
class Emitter {
 public:
  Emitter(Text& out, const Target& target, Memory& memory);

  Status type(DType element, int lanes, bool unaligned = false);
  Status function(std::string_view name, DType d, int lanes);
  Status cast(DType from, DType to, int lanes);

 private:
  const Row* find(std::string_view name, DType d, int lanes) const;
  Status once(size_t what, DType d, DType e, int lanes, bool* first);
  Status row(const Row& row, DType d, int lanes);
  Status body(std::string_view text, DType d, int lanes, bool write);
  Status types(std::string_view signature, DType d, int lanes);
  void head(std::string_view name, std::string_view signature, DType d, int lanes, int as);
  Status widened(std::string_view name, DType d, int lanes);
  Status horizontal(std::string_view name, std::string_view op, DType d, int lanes);
  Status direct(DType from, DType to, int lanes);
  Status through(DType from, DType to, int lanes);

  Text& out_;
  uint8_t level_;
  Vec<uint64_t> done_;
};

}  // namespace aster::codegen::prelude
