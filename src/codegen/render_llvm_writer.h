// Inside the LLVM renderer: what writes the statements of one program. A value is
// %t<value>_<instance>, a register %a<value>_<instance>, a memory %m<value>, a loop's counter
// %i<value>; what statements need in between is %n<number>, blocks are b<number>.
#pragma once

#include "codegen/render_c_writer.h"

namespace aster::codegen::program::llvm {

using c::Wanted;

class Writer {
 public:
  Writer(RenderedC& unit, Text& out, const Module& module, Wanted what, const Target& target,
         Vec<Wanted>& wanted)
      : unit_(unit),
        out_(out),
        module_(module),
        program_(module.programs[what.program]),
        what_(what),
        target_(target),
        wanted_(wanted),
        tables_(out.memory()),
        operands_(out.memory()),
        known_(out.memory()),
        scopes_(out.memory()) {}
  Status run();
  int64_t scratch_bytes() const { return scratch_; }

  // What the walker calls.
  Status step(const Step& s);
  Status open(const Step& s);
  Status close(const Step& s);

 private:
  // A value at a place where it can be read: what a register holds has been loaded.
  struct Operand {
    Register at;
    uint32_t loaded = 0;  // the number of what was loaded, if not 0
  };
  // A pointer that was computed in a block that is open.
  struct Known {
    Id memory = kNone;
    uint32_t terms = 0, number = 0;
    Product products[4];
  };
  Status cannot(const char* what);
  int lanes(const Instruction& in) const { return in.lanes == kAnyLanes ? what_.lanes : in.lanes; }
  int lanes(Register r) const { return lanes(program_.at(r.value)); }
  DType dtype_of(Register r) const { return program_.at(r.value).dtype; }
  static DType stored(DType d) { return d == DType::kBool ? d : c::stored(d); }

  // ---- Words of the language ----
  Text& type(DType d, int n);  // i1 for conditions
  Text& type_of(Register r) { return type(dtype_of(r), lanes(r)); }
  Text& memory_type(DType d, int n = 1) { return type(c::stored(d), n); }
  // "v16f32"
  static void suffix(Text& out, DType d, int n);
  void scalar(DType d, Word word);
  Text& literal(DType d, int n, Word word);
  Text& number(uint32_t n) { return out_ << "%n" << n; }
  uint32_t fresh() { return ++numbers_; }
  // `%n<number> = `, with a new number.
  uint32_t begin();
  Operand use(Register r);
  Text& put(const Operand& x);
  Text& typed(const Operand& x) { return type_of(x.at) << ' ', put(x); }
  Text& define(const Step& s);
  // A number in all lanes is written where it is used.
  bool is_literal(Register r) const;
  // The declaration of an intrinsic or another function, once a unit.
  Status declare(std::string_view text);
  uint32_t label() { return ++labels_; }
  void jump(uint32_t to) { out_ << "br label %b" << to << '\n'; }
  void branch(const Operand& condition, uint32_t yes, uint32_t no);
  void start(uint32_t block) { out_ << 'b' << block << ":\n", block_ = block; }

  // ---- Function and launch ----
  Status open_function();
  Status open_program();
  void allocate();
  const Instruction* argument(Word slot) const;
  void argument_type(const Instruction& in) { type(in.dtype, lanes(in)); }
  void function_name(const Program& function, Wanted what);
  Status want(Wanted what);
  bool in_halves() const;
  Status halved();
  uint32_t wide_bound(const Step& s, bool high);
  Status enter(uint32_t head, uint32_t goes_on, uint32_t count);
  Status open_loop(const Step& s);
  bool counts_tasks(Id loop) const;
  DType counter_of(Id loop) const;
  Status open_tasks(const Step& s);
  // Parts of a line: text, a number of its own or a name's.
  struct Number {
    uint32_t n;
  };
  void write_part(std::string_view text) { out_ << text; }
  void write_part(Word word) { out_ << word; }
  void write_part(Number n) { number(n.n); }

  // ---- Memory (render_llvm_memory.cpp) ----
  Status param(const Step& s);
  Status array(const Step& s);
  Status table(const Step& s);
  Status access(const Step& s);
  // The address of the first lane, of all of the form but its constant; and some elements on.
  uint32_t base(const Step& s, const Access& a);
  uint32_t moved(uint32_t from, int64_t elements, DType d);
  uint32_t vector_pointer(uint32_t from, DType d, int n);
  int touched(const Step& s, const Access& a) const;
  Status load(const Step& s, const Access& a, uint32_t* loaded);
  Status store(const Step& s, const Access& a);
  Status atomic(const Step& s, const Access& a);
  Status prefetch(const Step& s, const Access& a);
  uint32_t load_at(uint32_t pointer, DType d, int n);
  uint32_t load_lanes(const Step& s, const Access& a, uint32_t from);
  Status masked_call(const char* what, const Step& s, const Access& a, uint32_t from, DType d,
                     int n, uint32_t value, uint32_t* result);
  void store_stream(uint32_t from, DType d, int n, uint32_t value);
  // The lanes that are touched, as a value with its type.
  void put_mask(const Step& s, const Access& a, int n, uint32_t both);
  uint32_t all_masks(const Step& s, const Access& a, int n);
  uint32_t pointers(const Step& s, const Access& a, uint32_t from, DType d, int n);
  uint32_t lane_pointer(const Step& s, const Access& a, uint32_t from, DType d, int lane);
  const Operand* mask_of(const Step& s, const Access& a) const;
  static size_t index_operand(const Step& s);
  uint32_t lane_of(DType d, int n, uint32_t vector, int lane);

  // ---- Values (render_llvm_values.cpp) ----
  Status value(const Step& s);
  Status arithmetic(const Step& s);
  Status shuffle(const Step& s);
  Status cast(const Step& s);
  Status checked_cast(const Step& s);
  Status narrow_cast(const Step& s);
  Status bitcast(const Step& s);
  Status call(const Step& s);
  Status across(const Step& s);
  Status across_conditions(const Step& s);
  void copy(const Step& s, const Operand& x);
  // A row's statements on operands that `put(i)` writes; `result()` begins the last one.
  template <typename Put, typename Result>
  Status expand(std::string_view text, DType d, int n, Put put, Result result);
  template <typename Put>
  void line(std::string_view text, DType d, int n, const uint32_t* made, Put put);
  Status declare_intrinsic(std::string_view text, DType d, int n);
  static void intrinsic_name(Text& out, std::string_view name, DType d, int n);

  RenderedC& unit_;
  Text& out_;
  const Module& module_;
  const Program& program_;
  Wanted what_;
  const Target& target_;
  Vec<Wanted>& wanted_;
  Text tables_;            // constants of the program, behind it
  Vec<Operand> operands_;  // of the step at hand
  Vec<Known> known_;       // pointers
  struct Scope {
    size_t known = 0;
    uint32_t head = 0, behind = 0;
    uint32_t count = 0;  // of the tasks of a loop behind which others follow
  };
  Vec<Scope> scopes_;
  uint32_t numbers_ = 0, labels_ = 0, block_ = 0;
  int64_t scratch_ = 0;
  int task_loops_ = 0, conditions_ = 0;
  bool streams_ = false;
};

}  // namespace aster::codegen::program::llvm
