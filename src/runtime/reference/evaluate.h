// Kernel programs without a compiler: their steps are gone through one lane at a time, by the value
// column of ops.def. The same bits as machine code gives, slowly.
#pragma once

#include "base/memory.h"
#include "codegen/codegen.h"
#include "codegen/program.h"
#include "runtime/cpu/native.h"

namespace aster::runtime::reference {

// A program written out.
class Evaluated {
 public:
  // The last program of a module, which is of no other sizes than its own. Errors: UNSUPPORTED
  // (groups and their items), MEMORY.
  static Status make(Evaluated** out, const codegen::program::Module& module, Memory& memory);
  explicit Evaluated(Memory& memory)
      : steps_(memory), operands_(memory), words_(memory), products_(memory), codes_(memory) {}

  // What each running part needs.
  size_t scratch_bytes() const { return places_ * sizeof(uop::Word); }
  size_t steps() const { return steps_.size(); }
  // Tasks [begin, end) on the memory of the program's Params.
  void run(void* const* params, void* scratch, int64_t begin, int64_t end) const;

 private:
  class Writer;
  struct Step;
  struct Running;
  using Act = void (*)(const Evaluated&, Running&, const Step&);
  enum class Kind : uint8_t { kStep, kLoop, kTaskLoop, kIf, kClose };
  struct Operand {
    uint32_t place = 0;  // of its first lane
    uint32_t lanes = 1;
    uop::DType dtype = uop::DType::kNone;
  };
  struct Product {
    int64_t factor;
    uint32_t place;
  };
  // Elements that accesses read and write.
  struct Elements {
    uop::Op what = uop::Op::kParam;  // or Table, Array
    uop::DType dtype = uop::DType::kNone;
    uint32_t at = 0;  // slot, place, or words
  };
  struct Step {
    Kind kind = Kind::kStep;
    Act act = nullptr;
    uop::Op op = uop::Op::kEnd, with = uop::Op::kCount;
    uop::DType dtype = uop::DType::kNone;
    uint32_t result = 0, lanes = 1;
    uint32_t operand = 0, operands = 0;
    uint32_t word = 0, words = 0;
    uint32_t product = 0, products = 0;
    int64_t constant = 0;  // of the form; the value of an axis
    uint32_t match = 0;    // of blocks: the other end
    uint16_t flags = 0;
    // Of accesses: operands, or kNowhere.
    Elements elements;
    uint32_t index = UINT32_MAX, gate = UINT32_MAX, mask = UINT32_MAX;
    int64_t stride = 1, first = 0;
    uint32_t code = 0;  // that a Call runs
  };
  // A program at so many lanes: its steps, and where functions have their arguments and result.
  struct Code {
    uint32_t program = 0, lanes = 0, first = 0, last = 0;
    uint32_t arguments[4] = {}, argument_lanes[4] = {};
    uint32_t result = 0;
  };
  static constexpr uint32_t kNowhere = UINT32_MAX;

  Status code_of(uint32_t* out, uint32_t program, uint32_t lanes);
  const Operand& operand(const Step& step, size_t i) const { return operands_[step.operand + i]; }
  const uop::Word* words_of(const Step& step) const { return words_.data() + step.word; }
  uop::Word bound(const Running& running, const Step& loop, bool high) const;
  int64_t form(const Running& running, const Step& step) const;
  void execute(Running& running, uint32_t first, uint32_t last) const;
  static Act act_of(const codegen::program::Instruction& in, uop::Op op);

  static void compute(const Evaluated& e, Running& r, const Step& s);
  static void cast_bits(const Evaluated& e, Running& r, const Step& s);
  static void constant(const Evaluated& e, Running& r, const Step& s);
  static void zero(const Evaluated& e, Running& r, const Step& s);
  static void axis(const Evaluated& e, Running& r, const Step& s);
  static void lanes(const Evaluated& e, Running& r, const Step& s);
  static void begin_register(const Evaluated& e, Running& r, const Step& s);
  static void set_register(const Evaluated& e, Running& r, const Step& s);
  static void spread(const Evaluated& e, Running& r, const Step& s);
  static void lane(const Evaluated& e, Running& r, const Step& s);
  static void shuffle(const Evaluated& e, Running& r, const Step& s);
  static void across(const Evaluated& e, Running& r, const Step& s);
  static void call(const Evaluated& e, Running& r, const Step& s);
  static void access(const Evaluated& e, Running& r, const Step& s);
  static void nothing(const Evaluated&, Running&, const Step&) {}

  Vec<Step> steps_;
  Vec<Operand> operands_;
  Vec<uop::Word> words_;
  Vec<Product> products_;
  Vec<Code> codes_;
  size_t places_ = 0;  // words that registers and arrays take
};

// The last program of a module as a call: by strips, or lane by lane. Errors: UNSUPPORTED, MEMORY.
Status prepare_program(cpu::native::Plan* out, const codegen::program::Module& module);
// A kernel as a call, in the place of its machine code. target: what that was made for. Errors:
// UNSUPPORTED, MEMORY.
Status prepare_kernel(cpu::native::Plan* out, uop::Graph& scratch, uop::Node kernel,
                      const codegen::Target& target);

}  // namespace aster::runtime::reference
