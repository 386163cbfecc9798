// Inside the renderer of machine code: what writes the lines of one program and of the functions
// that it calls, which become part of it.
//
// Scalars of floats and vectors are in vector registers, scalars of integers and conditions in
// general ones: those of less than 32 bits as the 32 bits that they extend to, the others with
// nothing said of the bits above. Vectors of conditions are masks: bits with AVX-512, else elements
// of 0 and -1, as wide as those that were compared.
#pragma once

#include <algorithm>
#include <bit>

#include "base/hash_map.h"
#include "codegen/render_c_types.h"
#include "codegen/render_x86.h"
#include "codegen/walk.h"
#include "codegen/x86.h"

namespace aster::codegen::program::native {

using x86::Form;
using x86::Kind;
using x86::Line;
using x86::Mem;
using x86::OpcodeMap;
using x86::Place;
using x86::Prefix;
using x86::Reg;
using x86::RegClass;

// kLanes: 0, 1, 2, .. from the word on. kHalves: what is more than a register, as its halves.
enum class Held : uint8_t { kNothing, kRegister, kNumber, kLanes, kHalves };

enum class Logic : uint8_t { kNone, kAnd, kOr, kXor };

// A value, or the memory that an instruction names.
struct Value {
  Held held = Held::kNothing;
  DType dtype = DType::kNone;
  uint8_t lanes = 1;
  uint8_t mask = 0;      // bytes of an element of a condition's mask, without AVX-512
  bool counts = false;   // has 64 bits
  bool changes = false;  // a register of the program
  uint16_t depth = 0;    // of the block that it stands in
  Reg reg = x86::kNoReg;
  Word word = 0;             // of kHalves: where they stand
  Reg origin = x86::kNoReg;  // of an integer: it is what this one is and so much more
  int64_t added = 0;
  Mem memory;
};

// Where an instruction reads: a register or memory.
struct Source {
  Reg reg = x86::kNoReg;
  Mem mem;
  uint8_t size = 0;
};

class Writer {
 public:
  Writer(const Module& module, const Target& target, Memory& memory)
      : module_(module),
        target_(target),
        evex_(target.avx512),
        out_(memory, target.avx512),
        blocks_(memory),
        known_(memory),
        made_(memory),
        halves_(memory) {}
  Status run(Vec<uint8_t>* code);

  // What the walker calls.
  Status step(const Step& s);
  Status open(const Step& s);
  Status close(const Step& s);

 private:
  // A program that is being written: the last one, or a function.
  struct Body {
    Body(const Program& of, int call_lanes, Memory& memory)
        : program(of),
          lanes(call_lanes),
          values(memory),
          uses(memory),
          sets(memory),
          made(memory) {}
    const Program& program;
    int lanes;
    Map<uint64_t, Value> values;
    Vec<uint32_t> uses;  // of each instruction's value
    Vec<Id> sets;  // the register that is set to an instruction's value and nothing else reads
    Vec<uint32_t> made;  // of each instruction: the last of its instances among those known, from 1
    const Value* arguments = nullptr;
    Value result;
  };
  // What an instance of an instruction gave on these operands, in a block.
  struct Made {
    Digest what;
    Value value;
    uint32_t block = 0, stores = 0, before = 0;
  };
  struct Block {
    explicit Block(Memory& memory) : before(memory), entry(memory), lines(memory) {}
    Vec<Line> before, entry, lines;  // outside of it, at its head, in it
    int64_t head = 0, behind = 0;
    Reg counter = x86::kNoReg, end = x86::kNoReg, passed = x86::kNoReg;
    int64_t high = 0;
    bool loop = false, tasks = false;
    bool innermost = false;
    uint32_t number = 0;
    // Constants in registers, of loops that have none within: where they lie, and in which.
    struct Constant {
      int32_t place = 0;
      Reg reg = x86::kNoReg;
    };
    Constant constants[12] = {};
    int constant_count = 0;
  };
  // What was computed of values in a block that is open: a number of times one, or a pointer.
  struct Known {
    Reg from, value;
    int64_t factor;
    Reg result;
    uint16_t depth;
  };

  Status cannot(const char* what) const;
  Status walk(Body& body);
  Status find_sets(Body& body);
  Status write(const Step& s);
  bool digest(Digest* out, const Step& s) const;
  Status open_block();

  // ---- Lines ----
  void put(const Line& line) { out_.fail(blocks_.back().lines.push(line)); }
  // In the block of a depth that is open, before the one within it.
  void put_at(uint16_t depth, const Line& line);
  uint16_t depth() const { return static_cast<uint16_t>(blocks_.size() - 1); }
  Reg fresh(RegClass of) { return out_.fresh(of); }
  static Line vector(const Form& form, int bytes, Reg d, Reg a, const Source& b, int64_t imm = 0,
                     Reg mask = x86::kNoReg);
  void vector_line(const Form& form, int bytes, Reg d, Reg a, const Source& b, int64_t imm = 0,
                   Reg mask = x86::kNoReg, bool zeroes = false, bool changes = false);
  Reg vector_op(const Form& form, int bytes, Reg a, const Source& b, int64_t imm = 0);
  void general_line(const Form& form, int bytes, Reg d, const Source& b, bool changes,
                    int64_t imm = 0);
  Reg general_op(uint8_t opcode, int bytes, Reg a, const Source& b);  // a two-operand one
  Reg number(int64_t value);
  void copy(Reg to, Reg from);
  void jump(uint8_t condition, int64_t label);
  void label(int64_t label);
  void compare(int bytes, Reg a, const Source& b);
  void compare_number(int bytes, Reg a, int64_t number);
  Reg set_if(uint8_t condition);
  void move_if(uint8_t condition, int bytes, Reg to, Reg from);
  static Source at(Reg reg) { return Source{reg, {}, 0}; }
  static Source at(const Mem& mem, int size) {
    return Source{x86::kNoReg, mem, static_cast<uint8_t>(size)};
  }
  Mem pooled(const void* bytes, size_t size);
  // A word in all lanes of a whole register.
  Mem pooled_word(DType d, Word word);
  static uint64_t bits_of(DType d, Word word);

  // ---- Values ----
  static uint64_t key(Register r) { return uint64_t{r.value} << 32 | r.instance; }
  int lanes(const Instruction& in) const { return in.lanes == kAnyLanes ? body_->lanes : in.lanes; }
  static int element(DType d) { return static_cast<int>(dtype::size(c::stored(d))); }
  static bool is_real(DType d) { return d == DType::kFloat32 || d == DType::kFloat64; }
  // Of so many bytes.
  static DType whole_of(int element, bool is_signed) {
    constexpr DType kSigned[] = {DType::kInt8, DType::kInt16, DType::kInt32, DType::kInt64};
    constexpr DType kUnsigned[] = {DType::kUInt8, DType::kUInt16, DType::kUInt32, DType::kUInt64};
    const int log = std::countr_zero(static_cast<unsigned>(element));
    return is_signed ? kSigned[log] : kUnsigned[log];
  }
  // Of an element of a mask of n lanes that nothing was compared for.
  uint8_t mask_bytes(int n) const {
    return static_cast<uint8_t>(std::clamp(target_.vector_bytes / n, 1, 8));
  }
  RegClass class_of(DType d, int n) const {
    if (n == 1) return is_real(d) ? RegClass::kVector : RegClass::kGeneral;
    return d == DType::kBool && evex_ ? RegClass::kMask : RegClass::kVector;
  }
  // Of the operation on a vector, and of what it has in memory.
  static int vector_bytes(DType d, int n) { return std::max(16, element(d) * n); }
  int bytes_of(const Value& v) const {
    return std::max(16, (v.dtype == DType::kBool ? v.mask : element(v.dtype)) * v.lanes);
  }
  Value find(Register r) const;
  Status define(const Step& s, Value value);
  Value in_new(DType d, int n, Reg reg) const;
  Value of_number(DType d, int n, Word word) const;
  Value of_zero(const Value& like) const {
    Value out = of_number(like.dtype, like.lanes, 0);
    out.mask = like.mask;
    return out;
  }
  Reg in_register(const Value& v);
  Source hoisted(const Mem& constant);
  void load_number(Reg to, int bytes, const Value& v);
  Source source(const Value& v);  // for vectors and floats
  Reg fresh_of(const Value& like) { return fresh(class_of(like.dtype, like.lanes)); }
  void copy_value(Reg to, const Value& from);
  Value register_of(Id acc, const Step& s) const;
  Value masked_as(const Value& v, int bytes);  // a mask of elements of so many bytes

  // ---- Blocks ----
  Status open_loop(const Step& s);
  Status open_tasks(const Step& s);
  Reg bound(const Step& s, bool high, int64_t* number);
  bool counts_tasks(Id loop) const;
  bool is_innermost(Id loop) const;

  // ---- Memory (render_x86_memory.cpp) ----
  Status param(const Step& s);
  Status array(const Step& s);
  Status table(const Step& s);
  Status access(const Step& s);
  Reg wide(const Value& v);
  Reg multiple(const Value& v, int64_t factor);
  Reg moved(Reg from, Reg by, uint16_t depth);
  Mem address(const Step& s, const Access& a);
  Mem simple(const Mem& from);
  // Addresses of lanes, one after the other.
  class Lanes {
   public:
    Lanes(Writer& writer, const Access& a, const Mem& from, const Value& index, int size);
    Mem at(int lane);

   private:
    Writer& writer_;
    const Access& access_;
    int size_;
    Mem from_, spilled_;
    Value index_;
  };
  Status load(const Access& a, const Mem& from, const Value& index, const Value* mask, DType d,
              int n, int first, Reg to);
  Status load_lanes(const Access& a, const Mem& from, const Value& index, const Value* mask,
                    DType d, int n, int first, Reg to);
  Status store(const Access& a, const Value& value, const Mem& to, const Value& index,
               const Value* mask, int first, bool streams);
  Status atomic(const Step& s, const Access& a, const Value& value, const Mem& to,
                const Value& index, const Value* mask);
  void load_whole(DType d, int n, const Mem& from, Reg to);
  void store_whole(DType d, int n, const Mem& to, Reg from);
  void load_scalar(DType d, const Mem& from, Reg to);
  void store_scalar(DType d, const Mem& to, Reg from);
  void store_stream(DType d, int n, const Mem& to, Reg from);
  Reg lanes_mask(const Value* mask, int n, int first, int bytes);
  void skip_unless(const Value& condition, int64_t to);
  void skip_unless_lane(const Value& mask, int lane, int64_t to);
  Reg mask_bits(const Value& mask);
  Reg mask_of_bits(Reg bits);  // the other way round, with AVX-512
  Mem spill(Reg from, int bytes);

  // ---- More than a register (render_x86_wide.cpp) ----
  bool is_wide(DType d, int n) const { return n > 1 && element(d) * n > target_.register_bytes(); }
  Value half(const Value& v, bool upper);
  Value both(const Value& low, const Value& high);
  Value new_register(DType d, int n);
  void set_register(const Value& to, const Value& from);
  Status load_halves(const Access& a, const Mem& from, const Value& index, const Value* mask,
                     DType d, int n, int first, Value* out);
  Status store_halves(const Access& a, const Value& value, const Mem& to, const Value& index,
                      const Value* mask, int first, bool streams);
  void put_halves(const Value& v, Mem to);
  Value take_halves(DType d, int n, Mem from);
  Status shuffle_halves(const Step& s, const Value* x, size_t count, int n, Value* out);
  // What a step computes of values, on n lanes.
  Status compute(const Step& s, const Value* x, size_t count, int n, Value* out);

  // ---- Values (render_x86_values.cpp) ----
  Status value(const Step& s);
  Status compute_whole(const Step& s, const Value* x, size_t count, int n, Value* out);
  bool broadcasts(Register from, int n, Value* x);
  Value kept(const Value& x);
  Value spread(const Value& x, DType d, int n);
  Value joined(const Value& low, const Value& high);
  Value lane(const Value& x, int which);
  Status shuffle(const Step& s, Value* out);
  Value as_numbers(const Value& mask, int size);
  Reg shuffled(const Value& a, const Value& b, Words words, int n);
  Reg upper_half(const Value& x);
  Status cast(const Value& x, DType to, int n, bool checked, Value* out);
  Status bitcast(const Value& x, DType to, int n, Value* out);
  Reg as_ones(const Value& mask, DType to, int n);
  Reg resized(Reg from, DType of, DType to, int n);
  Reg narrowed(Reg from, int element, int bytes);
  Status to_real(const Value& x, DType to, int n, Value* out);
  Status to_int(const Value& x, DType to, int n, bool checked, Value* out);
  Status call_whole(size_t place, const Value* arguments, size_t count, int n, Value* out);
  Status across(const Step& s, Value x, Value* out);

  // ---- Arithmetic (render_x86_arithmetic.cpp) ----
  Status arithmetic(Op op, DType result, int n, const Value* x, size_t count, Value* out);
  Status conditions(Op op, int n, const Value* x, Value* out);
  Reg combined(Logic how, Reg a, Reg b, const Value& like);
  Reg inverted(Reg of, const Value& like);
  Status compare_values(Op op, int n, const Value* x, Value* out);
  Status choose(int n, const Value* x, Value* out);
  Status general(Op op, const Value* x, Value* out);
  bool sum_of(const Value& x, int64_t number, int bytes, Value* out);
  Status divisions(Op op, const Value* x, Value* out);
  Status dots(Op op, const Value* x, Value* out);
  Status copied(const Value& x, Value* out);
  Status products_of_quads(int n, const Value* x, Value* out);
  Status shifts(Op op, const Value* x, Value* out);
  Status vectors(Op op, int n, const Value* x, Value* out);
  Status by_row(Op op, int n, const Value* x, Value* out);
  Status signs(Op op, int n, const Value* x, Value* out);
  Status scaled(DType d, int n, const Value* x, Value* out);
  Status extremum(Op op, DType d, int n, const Value* x, Value* out);
  Status quad_dot(int n, const Value* x, Value* out);
  Status fused(DType d, int n, const Value* x, Value* out, Reg into);
  Status by_lanes(Op op, DType result, int n, const Value* x, size_t count, Value* out);
  Reg blended(Reg mask, Reg otherwise, const Source& where, int bytes, int element);
  Reg mask_of_compare(Op op, DType d, int n, Reg a, const Source& b);
  void normalise(DType d, Reg reg);

  const Module& module_;
  const Target& target_;
  bool evex_;
  x86::Assembly out_;
  Vec<Block> blocks_;
  Vec<Known> known_;
  Vec<Made> made_;
  Vec<Value> halves_;
  uint32_t numbers_ = 0, stores_ = 0;
  Body* body_ = nullptr;
  int task_loops_ = 0;
  int32_t done_ = 0;  // where tasks of loops before are counted
  int64_t scratch_ = 0;
  bool streams_ = false;
  static constexpr int kSpills = 8;
  int32_t spill_ = 0, wide_room_ = 0;
  int spills_ = 0;
};

}  // namespace aster::codegen::program::native
