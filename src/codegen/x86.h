// Machine code of x86-64 in the making: instructions on registers without end, which are given
// those that there are, and encoded. Vectors are AVX2's, or AVX-512's.
#pragma once

#include <span>

#include "base/memory.h"
#include "base/status.h"

namespace aster::codegen::x86 {

enum class OpcodeMap : uint8_t { kOne, k0F, k0F38, k0F3A };
enum class Prefix : uint8_t { kNone, k66, kF3, kF2 };

enum FormFlag : uint16_t {
  kVector = 1,    // VEX or EVEX; else one of the old instructions
  kEvexOnly = 2,  // is of AVX-512
  kVexW0 = 4,     // W is of EVEX alone
  kHasImm = 8,    // a byte
  kHasImm32 = 16,
  kStores = 32,          // what it writes, in memory or a register, stands where others read
  kFixedSize = 64,       // takes no W of 64 bits
  kNoLength = 128,       // of vectors: is of one element, whatever their length
  kRegister = 256,       // its last operand is no memory
  kFourth = 512,         // `mask` is a fourth operand, a vector
  kByteRegister = 1024,  // low bytes of registers
  kLocked = 2048
};

// An instruction as manuals have it.
struct Form {
  uint8_t opcode = 0;
  OpcodeMap map = OpcodeMap::k0F;
  Prefix prefix = Prefix::kNone;
  uint8_t w = 0;
  uint16_t flags = kVector;
  int8_t digit = -1;  // /digit, where there is one
};

// A register without end; its class decides which there are.
using Reg = uint32_t;
constexpr Reg kNoReg = UINT32_MAX;
enum class RegClass : uint8_t { kGeneral, kVector, kMask };

enum class Place : uint8_t { kNone, kPointer, kStack, kConstants, kFrame };

// Memory that an instruction reads or writes.
struct Mem {
  Place place = Place::kNone;
  Reg base = kNoReg, index = kNoReg;
  uint8_t scale = 1;
  int32_t offset = 0;
};

enum class Kind : uint8_t {
  kInstruction,
  kLabel,      // imm: which
  kJump,       // imm: where to; condition: opcode, or always
  kLoopBegin,  // what is known outside is needed to the end
  kLoopEnd,
  kNumber,  // d = imm
  kDivide,  // d = a / b of `bytes`; imm: bit 0 signed, bit 1 the rest
};
constexpr uint8_t kAlways = 0xFF;

// One instruction: d = a op b, in the order of the manuals, where b may be memory.
struct Line {
  Kind kind = Kind::kInstruction;
  uint8_t bytes = 0;     // of the operation: 1 to 8, or 16, 32, 64 of vectors
  uint8_t size = 0;      // of what is read or written in memory
  bool changes = false;  // d is read as well
  bool zeroes = false;   // lanes that the mask leaves out are 0
  bool early = false;    // d is written while others are still read
  bool zeroing = false;  // d is its own operand, whatever it was
  Form form;
  Reg d = kNoReg, a = kNoReg, b = kNoReg, mask = kNoReg;
  Mem mem;
  int64_t imm = 0;
};

// Lines, and the code that becomes of them.
class Assembly {
 public:
  Assembly(Memory& memory, bool avx512)
      : lines(memory), classes_(memory), constants_(memory), code_(memory), avx512_(avx512) {}

  Vec<Line> lines;

  Reg fresh(RegClass of);
  // Of none, which there is where memory was short: a general one.
  RegClass class_of(Reg r) const {
    return r < classes_.size() ? static_cast<RegClass>(classes_[r]) : RegClass::kGeneral;
  }
  int64_t label() { return labels_++; }
  // Memory of the function, of so many bytes, from a multiple of `unit` on.
  int32_t reserve(size_t bytes, int32_t unit = 64);
  // Where so many bytes of constants lie.
  int32_t constant(const void* bytes, size_t size);
  void fail(Status status) {
    if (status_.ok()) status_ = status;
  }
  Status status() const { return status_; }

  // The code of a function of five arguments, which it finds in its frame from offset 0 on, eight
  // bytes each. Position-independent; constants behind it. Errors: UNSUPPORTED, MEMORY.
  Status finish();
  std::span<const uint8_t> code() const { return {code_.data(), code_.size()}; }

 private:
  friend class Allocator;
  friend class Encoder;
  Vec<uint8_t> classes_;
  Vec<uint8_t> constants_;
  Vec<uint8_t> code_;
  int64_t labels_ = 0;
  int32_t frame_ = 64;  // the arguments, and room to divide
  Status status_;
  bool avx512_;
};

}  // namespace aster::codegen::x86
