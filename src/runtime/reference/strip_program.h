// Kernel programs without machine code of their own: each step is a loop, compiled into the
// library, over a strip of elements, which are the lanes of as many turns of an innermost loop as
// go together. The same bits as machine code gives: what is computed of an element, and in which
// order a register changes, is what the program says.
#pragma once

#include "base/hash_map.h"
#include "codegen/program.h"
#include "runtime/reference/strip_loops.h"

namespace aster::runtime::reference {

class StripProgram {
 public:
  // The last program of a module. Errors: UNSUPPORTED (an operation that no loop computes, a CPU
  // that has not what the loops are made for), MEMORY.
  static Status make(StripProgram** out, const codegen::program::Module& module, Memory& memory);
  explicit StripProgram(Memory& memory)
      : steps_(memory),
        accesses_(memory),
        products_(memory),
        lanes_(memory),
        places_(memory),
        tables_(memory),
        codes_(memory) {}

  // What each running part needs.
  size_t scratch_bytes() const { return bytes_; }
  // Tasks [begin, end) on the memory of the program's Params.
  void run(void* const* params, const int64_t* sizes, void* scratch, int64_t begin,
           int64_t end) const;

 private:
  class Maker;
  struct Step;
  struct Running;
  using Act = void (*)(const StripProgram&, Running&, const Step&);
  enum class Kind : uint8_t { kStep, kLoop, kTaskLoop, kBatch, kIf, kClose };
  // Where a value lies in the memory of a part. A strip has its lanes for every turn.
  struct Value {
    uint32_t at = 0;
    uint32_t lanes = 1;
    uint8_t bytes = 0;  // of an element
    bool strip = false;
  };
  struct Product {
    int64_t factor;
    Value value;  // int32 or int64
  };
  struct Access {
    uop::Op what = uop::Op::kParam;  // or Table, Array
    uint32_t memory = 0;             // slot, place among the tables, place in the part's memory
    uint32_t product = 0, products = 0;
    int64_t constant = 0;
    int64_t turn = 0;  // elements from turn to turn
    int64_t stride = 1, first = 0;
    Value index, gate, mask;  // bytes 0: has none
    bool moves = false;       // from turn to turn, as values do
  };
  struct Step {
    Kind kind = Kind::kStep;
    Act act = nullptr;
    StripLoop loop = nullptr;
    StripFold fold = nullptr;
    Value y, a, b, c;
    uint32_t list = 0, count = 0;  // lanes of a Shuffle; values that a batch repeats, of a call
    uint32_t access = 0;           // the code of a call
    uint32_t match = 0;            // of blocks: the other end
    int64_t word = 0;              // of a constant, as it lies in memory; a lane; turns of a batch
    int64_t low = 0, high = 0;     // of loops: where no value says it
    int64_t step = 1;
    bool has_low = false, has_high = false;
    bool task = false;
  };
  // A function at so many elements.
  struct Code {
    uint32_t program = 0, room = 0, first = 0, last = 0;
    Value arguments[8] = {};
    Value result;
  };

  void execute(Running& r, uint32_t first, uint32_t last) const;
  void run_batch(Running& r, const Step& step) const;
  int64_t bound(const Running& r, const Step& loop, bool high) const;
  int64_t base(const Running& r, const Access& access) const;
  template <typename T>
  void copy_elements(Running& r, const Step& s, char* memory, bool loads) const;

  static void compute(const StripProgram& p, Running& r, const Step& s);
  static void combine(const StripProgram& p, Running& r, const Step& s);
  static void constant(const StripProgram& p, Running& r, const Step& s);
  static void number(const StripProgram& p, Running& r, const Step& s);
  static void copy(const StripProgram& p, Running& r, const Step& s);
  static void count(const StripProgram& p, Running& r, const Step& s);
  static void spread(const StripProgram& p, Running& r, const Step& s);
  static void take_lane(const StripProgram& p, Running& r, const Step& s);
  static void shuffle(const StripProgram& p, Running& r, const Step& s);
  static void across(const StripProgram& p, Running& r, const Step& s);
  static void across_all(const StripProgram& p, Running& r, const Step& s);
  static void call(const StripProgram& p, Running& r, const Step& s);
  static void access(const StripProgram& p, Running& r, const Step& s);

  Vec<Step> steps_;
  Vec<Access> accesses_;
  Vec<Product> products_;
  Vec<uint32_t> lanes_;  // that Shuffles take
  Vec<Value> places_;    // pairs: a value, and where a batch repeats it
  Vec<char> tables_;     // elements of tables, each from a multiple of 8 on
  Vec<Code> codes_;
  size_t bytes_ = 0;
};

}  // namespace aster::runtime::reference
