// The table of functions, and what appends them to modules.
#include "codegen/functions.h"

#include <bit>
#include <cstdio>
#include <cstring>

#include "codegen/functions_builder.h"

namespace aster::codegen::program {
namespace functions {
namespace {

constexpr size_t kMostArguments = 4;

enum Types : uint16_t {
  F32 = 1,
  F64 = 2,
  FLT = 3,
  F16 = 4,
  SMALL = 8,
  SHORT_SINT = 16,
  SHORT_UINT = 32,
  SHORT = 48,
  I64 = 64,
  U64 = 128,
  LONG = 192,
  SINT = 80,
  UINT = 160,
  INT = 240,
  BOOL = 256
};
Types types_of(DType d) {
  if (d == DType::kFloat32) return F32;
  if (d == DType::kFloat64) return F64;
  if (d == DType::kFloat16) return F16;
  if (dtype::is_narrow_float(d)) return SMALL;
  if (d == DType::kBool) return BOOL;
  if (!dtype::is_int(d) || type_name(d) == nullptr) return Types{};
  if (dtype::size(d) == 8) return dtype::is_signed(d) ? I64 : U64;
  return dtype::is_signed(d) ? SHORT_SINT : SHORT_UINT;
}

constexpr bool FUSED = true, SAME = false;
struct Row {
  Op op;
  uint16_t results, operands;
  Build build;
  bool differs;  // without fused multiply-adds
};
constexpr Row kRows[] = {
#define FUNCTION(op, results, operands, build, differs) \
  {Op::k##op, results, operands, build, differs},
#include "codegen/functions.def"
};
struct HelperRow {
  const char* name;
  Build build;
  bool differs;
};
constexpr HelperRow kHelpers[] = {
    {"", nullptr, SAME},
#define HELPER(name, build, differs) {#name, build, differs},
#include "codegen/functions.def"
};

const Row* find(const FunctionKey& key) {
  for (const Row& row : kRows) {
    const bool fits = row.op == key.op && (row.results & types_of(key.result)) != 0 &&
                      (row.operands & types_of(key.operand)) != 0;
    const bool cast = key.op == Op::kCast;
    if (fits && cast == (key.result != key.operand)) return &row;
  }
  return nullptr;
}

void write_name(char (&out)[kMaxName], const FunctionKey& key, const char* helper, bool nofma) {
  char name[24] = {};
  std::snprintf(name, sizeof(name), "%s", helper[0] != '\0' ? helper : uop::info(key.op).name);
  for (char& c : name) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  const bool cast = key.op == Op::kCast && helper[0] == '\0';
  std::snprintf(out, sizeof(out), "%s_%s%s%s%s", name, type_name(key.operand), cast ? "_" : "",
                cast ? type_name(key.result) : "", nofma ? "_nofma" : "");
}

Status append_function(size_t* place, Module* module, const FunctionKey& key, const char* helper,
                       Build build, bool differs, bool fma) {
  char name[kMaxName];
  write_name(name, key, helper, differs && !fma);
  for (size_t i = 0; i < module->programs.size(); ++i) {
    const Program& other = module->programs[i];
    if (other.function && std::strcmp(other.name, name) == 0) return *place = i, kOk;
  }
  Program program(module->programs.memory());
  std::memcpy(program.name, name, sizeof(name));
  program.function = true;
  Builder b(module, &program, fma);
  b.result(build(b, key));
  ASTER_TRY(program.status());
  *place = module->programs.size();
  return module->programs.push(std::move(program));
}

}  // namespace

DType V::dtype() const { return id == kNone ? DType::kNone : b->program().at(id).dtype; }
V V::like(Number number) const { return b->constant(dtype(), number); }
V V::as(DType to) const { return dtype() == to ? *this : b->unary(Op::kBitcast, to, *this); }
V V::bits() const {
  switch (dtype::size(dtype())) {
    case 1:
      return as(DType::kUInt8);
    case 2:
      return as(DType::kUInt16);
    case 4:
      return as(DType::kUInt32);
    default:
      return as(DType::kUInt64);
  }
}
V V::ints() const { return as(dtype::size(dtype()) == 8 ? DType::kInt64 : DType::kInt32); }

V V::cast(DType to) const {
  const DType from = dtype();
  if (from == to) return *this;
  const auto half = [](DType a, DType c) { return a == DType::kFloat16 && c == DType::kFloat32; };
  const bool narrow = dtype::is_narrow_float(from) || dtype::is_narrow_float(to);
  const bool checked = dtype::is_float(from) && dtype::is_int(to);
  const bool native = narrow ? b->fma() && (half(from, to) || half(to, from)) : !checked;
  return native ? b->unary(Op::kCast, to, *this) : b->call({Op::kCast, to, from}, {*this});
}

V copysign(V a, V b) {
  const uint64_t sign = a.dtype() == DType::kFloat32 ? uint64_t{1} << 31 : uint64_t{1} << 63;
  return ((a.bits() & (sign - 1)) | (b.bits() & sign)).as(a.dtype());
}

Id Builder::append(Op op, DType dtype, uint8_t lanes, std::initializer_list<Id> operands, Op with) {
  Instruction in;
  in.op = op;
  in.dtype = dtype;
  in.lanes = lanes;
  in.with = with;
  return program_->add(in, {operands.begin(), operands.size()});
}

V Builder::argument(DType dtype) {
  Instruction in;
  in.op = Op::kParam;
  in.dtype = dtype;
  in.lanes = kAnyLanes;
  in.flags = kArgument;
  const Word slot = arguments_++;
  return {this, program_->add(in, {}, {&slot, 1})};
}

V Builder::constant(DType dtype, Number number) {
  const Word word = dtype::is_float(dtype)
                        ? std::bit_cast<Word>(dtype::truncate_float(dtype, number.real))
                        : dtype::truncate_int(dtype, number.whole);
  for (const Constant& c : constants_) {
    if (c.dtype == dtype && c.word == word) return {this, c.id};
  }
  Instruction in;
  in.op = Op::kConst;
  in.dtype = dtype;
  const Id scalar = program_->add(in, {}, {&word, 1});
  const Id id = append(Op::kSpread, dtype, kAnyLanes, {scalar});
  program_->fail(constants_.push({dtype, word, id}));
  return {this, id};
}

V Builder::alu(Op op, DType result, std::initializer_list<V> operands) {
  Id ids[3] = {};
  size_t count = 0;
  for (V v : operands) ids[count++] = v.id;
  Instruction in;
  in.op = op;
  in.dtype = result;
  in.lanes = kAnyLanes;
  return {this, program_->add(in, {ids, count})};
}

V Builder::native_or_call(Op op, DType result, V x) {
  return fma_ ? unary(op, result, x) : call({op, result, x.dtype()}, {x});
}

V Builder::called(size_t place, DType result, std::initializer_list<V> arguments) {
  Id ids[kMostArguments] = {};
  size_t count = 0;
  for (V v : arguments) ids[count++] = v.id;
  Instruction in;
  in.op = Op::kCall;
  in.dtype = result;
  in.lanes = kAnyLanes;
  const Word word = static_cast<Word>(place);
  return {this, program_->add(in, {ids, count}, {&word, 1})};
}

V Builder::call(const FunctionKey& key, std::initializer_list<V> arguments) {
  size_t place = 0;
  program_->fail(add_function(&place, module_, key, fma_));
  return called(place, key.result, arguments);
}

V Builder::call(Helper helper, const FunctionKey& key, std::initializer_list<V> arguments) {
  const HelperRow& row = kHelpers[static_cast<size_t>(helper)];
  size_t place = 0;
  program_->fail(append_function(&place, module_, key, row.name, row.build, row.differs, fma_));
  return called(place, key.result, arguments);
}

Id Builder::table(DType dtype, Words words) {
  Instruction in;
  in.op = Op::kTable;
  in.dtype = dtype;
  return program_->add(in, {}, words);
}

V Builder::load(Id table, V index, int64_t constant) {
  Instruction in;
  in.op = Op::kLoad;
  in.dtype = table == kNone ? DType::kNone : program_->at(table).dtype;
  in.lanes = kAnyLanes;
  in.flags = kIndexed;
  in.constant = constant;
  const Id ids[] = {table, index.id};
  return {this, program_->add(in, ids)};
}

}  // namespace functions

bool has_function(const FunctionKey& key) { return functions::find(key) != nullptr; }

Status add_function(size_t* place, Module* module, const FunctionKey& key, bool fma) {
  const functions::Row* row = functions::find(key);
  if (row == nullptr) {
    return ASTER_FAIL(kUNSUPPORTED, "no function for %s of %s to %s", uop::info(key.op).name,
                      dtype::name(key.operand), dtype::name(key.result));
  }
  return functions::append_function(place, module, key, "", row->build, row->differs, fma);
}

}  // namespace aster::codegen::program
