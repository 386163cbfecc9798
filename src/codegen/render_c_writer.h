// Inside the C renderer: what writes the statements of one program.
#pragma once

#include "codegen/render_c_types.h"
#include "codegen/walk.h"

namespace aster::codegen::program::c {

// A function at lanes, wanted by a call; cold where only slow paths of functions call it.
struct Wanted {
  size_t program;
  uint8_t lanes;
  bool cold;
  bool operator==(const Wanted&) const = default;
};

struct GatherRow;

// The statements of one program. Conditions are masks as wide as what was compared first; their
// users convert them.
class Writer {
 public:
  Writer(Text& out, const Module& module, Wanted what, const Target& target, Types& types,
         Vec<Wanted>& wanted)
      : out_(out),
        module_(module),
        program_(module.programs[what.program]),
        what_(what),
        call_lanes_(what.lanes),
        target_(target),
        types_(types),
        wanted_(wanted),
        masks_(out.memory()),
        registers_(out.memory()) {}
  Status run();
  int64_t scratch_bytes() const { return scratch_; }
  bool streams() const { return streams_; }
  const int64_t (&groups() const)[3] { return groups_; }
  const int64_t (&locals() const)[3] { return locals_; }

  // What the walker calls.
  // Which values only change a register, right behind them: they are written as that.
  Status find_register_values();
  uint32_t instance_of(Id id, const Step& s) const;
  Status step(const Step& s);
  Status open(const Step& s);
  Status close(const Step& s);

 private:
  Status cannot(const char* what);

  // ---- What the languages write differently (render_c_words.cpp) ----
  bool opencl() const { return target_.language == Language::kOpencl; }
  // A vector of what is written in between: `(f32x8){` .. `}`, `(float8)(` .. `)`.
  Text& open_vector(DType d, int n);
  Text& close_vector() { return out_ << (opencl() ? ')' : '}'); }
  Text& zero(DType d, int n);
  Text& lane_suffix(int lane);
  // The bits of what follows in brackets as another type of the same size; of one lane of an
  // integer its value.
  Text& reinterpret(DType d, int n);
  // Lanes of two vectors of `from` lanes, whose names `write(0)` and `write(1)` write.
  template <typename Write>
  void shuffled(DType d, int from, Words which, Write write);
  // Lanes next to each other.
  template <typename Write>
  void part(DType d, int n, int from, int count, Write write);

  // ---- OpenCL C (render_opencl.cpp) ----
  // Whether the device has all types and vectors.
  Status check_device();
  Status open_kernel();
  Status open_items(const Step& s);
  void open_item_tasks(const Step& s);
  void open_item_turn(const Step& s);
  // Whether it can be said before a loop of tasks how many a turn of it has.
  bool turns_known(Id loop) const;
  void say_turn(Id loop);
  void close_items(const Step& s);
  // Whether no loop of items follows.
  bool last_items(Id id) const;
  void say_items();
  Status barrier(const Step& s);
  Status item_array(const Step& s, int64_t elements);
  // `__global const float `
  void memory_type(Id memory);
  int lanes(const Instruction& in) const { return in.lanes == kAnyLanes ? call_lanes_ : in.lanes; }
  int lanes(Register r) const { return lanes(program_.at(r.value)); }
  DType dtype_of(Register r) const { return program_.at(r.value).dtype; }
  // Of a register's variable.
  DType held(Id id) const;
  void type(DType d, int n) { types_.name(out_, d, n); }
  Text& name(Register r) { return out_ << 't' << r.value << '_' << r.instance; }
  void define(const Step& s);
  void operand(const Step& s, size_t i) { name(s.operands[i]); }
  // An operand as a value like that of `like`, whose masks may be wider or narrower.
  void converted(const Step& s, size_t i, Id like) { as(s.operands[i], held(like)); }
  void as(Register r, DType mask);

  // ---- Function and launch ----
  Status open_function();
  const Instruction* argument(Word slot) const;  // null past the last
  // `name_x8(`
  void function_name(const Program& function, Wanted what);
  Status want(Wanted what);
  // The lanes that a function is computed at when it is called at call_lanes_: floats in vectors
  // that the target has.
  int computed_lanes() const;
  // A function that calls itself at other lanes.
  Status widened(int wide);
  Status halved();
  Status lane_by_lane();
  // Its call with arguments of other lanes, from `first` on and around.
  void call_with(Wanted what, int first);
  // Conditions go in and out of functions as masks of 32 bits.
  DType argument_type(const Instruction& in) const;
  Status open_program();
  // Outer loops are gone along, the innermost by those of its tasks that are asked for.
  // low, high and count of a task loop, behind an open brace.
  void declare_tasks(const Step& s, const char* integer);
  void open_tasks(const Step& s);
  void open_loop(const Step& s);
  void bound(const Step& s, bool high);

  // ---- Memory ----
  Status param(const Step& s);
  Status array(const Step& s);
  // The element of a lane, or of the first one.
  void element(const Step& s, const Access& a, int lane);
  void address(const Step& s, const Access& a, int lane);
  void form(const Step& s, int64_t constant);
  static size_t index_operand(const Step& s);
  Status access(const Step& s);
  int first_lanes(const Step& s, const Access& a) const;
  static bool contiguous(const Access& a) { return a.index == kNone && a.step == 1; }
  // Whether the target has an instruction for some lanes of a contiguous vector.
  bool masks_memory(DType d, int n) const;
  // The bits of the lanes that are touched.
  void write_bits(DType d, int n, int first, const Register* mask);
  void write_masked(const Step& s, const Access& a, DType d, int n, int first,
                    const Register* mask);
  void builtin_type(DType d, int n);
  void load_by_vector(const Step& s, const Access& a, int first, const Register* mask);
  void load_contiguous(const Step& s, const Access& a);
  const GatherRow* gather_row(const Step& s, const Access& a) const;
  void gather(const Step& s, const GatherRow& row);
  // Loads of whole vectors, and those that are made of lanes.
  bool by_vector(const Step& s, const Access& a, const Register* mask) const;
  bool by_lanes(const Step& s, const Access& a, const Register* mask) const;
  void pointer(const Step& s, const Access& a);
  Text& pointer_name(const Step& s);
  void piece_of(const Step& s, const Access& a, int lane);
  void load(const Step& s, const Access& a, const Register* mask);
  void stream(const Step& s, const Access& a, Register value, int first);
  Text& lane_of(Register r, int lane);
  Status store(const Step& s, const Access& a, const Register* mask);
  void piece(const Step& s, const Access& a, Register value, int at, int size);
  Status atomic(const Step& s, const Access& a, const Register* mask);

  // ---- Values ----
  // How wide the mask of a vector of conditions is.
  void learn_mask(const Step& s);
  void constant(DType d, Word word);
  // A scalar written by `write` in all lanes.
  template <typename Write>
  void spread(DType d, int n, Write write);
  Status value(const Step& s);
  Status literal(const Step& s, int n);
  Status shuffle(const Step& s, int n);
  Status bitcast(const Step& s, int n);
  Status cast(const Step& s, int n);
  Status narrow_cast(const Step& s, int n);
  // Vectors of integers made four times as wide or more are widened in steps: gcc takes them apart
  // otherwise.
  void convert(Register r, DType from, DType to, int n);
  // By way of int64, 0 where that cannot hold it.
  Status float_to_int(const Step& s, int n, DType from);
  Status call(const Step& s, int n);

  // ---- Rows ----
  static bool takes_number(Op op) { return op == Op::kQuo || op == Op::kRem; }
  bool number(Register r);
  Status arithmetic(const Step& s, int n);
  Status where(const Step& s, int n);
  // Whether a register is the number 0, which is positive.
  bool is_zero(Register r) const;
  // A row's text; operands are written by `write(i)`.
  template <typename Write>
  void expand(std::string_view text, DType d, int n, Write write);
  // The first comma outside of brackets.
  static size_t top_comma(std::string_view text, size_t from);
  // Halves of lanes combined, in variables a of half as many lanes each.
  Status across(const Step& s);
  // Any and all of conditions, where the target has an instruction that says.
  bool across_mask(const Step& s);

  Text& out_;
  const Module& module_;
  const Program& program_;
  Wanted what_;
  int call_lanes_;
  const Target& target_;
  Types& types_;
  Vec<Wanted>& wanted_;
  Vec<DType> masks_;
  Vec<Id> registers_;  // by value: the one that it changes and nothing else reads
  int64_t scratch_ = 0, groups_[3] = {}, locals_[3] = {};
  bool streams_ = false;
  int task_loops_ = 0;
  int conditions_ = 0;  // that are open
  int items_ = 0;       // loops of items that are open
};

template <typename Write>
void Writer::shuffled(DType d, int from, Words which, Write write) {
  const bool two = which.size() == static_cast<size_t>(from) &&
                   std::ranges::any_of(which, [&](Word word) { return word < from; }) &&
                   std::ranges::any_of(which, [&](Word word) { return word >= from; });
  if (!opencl() || two) {
    if (opencl()) {
      types_.mix(out_, d, from);
    } else {
      out_ << "__builtin_shufflevector";
    }
    out_ << '(';
    write(0), out_ << ", ";
    write(1);
    for (Word word : which) out_ << ", " << word;
    out_ << ')';
    return;
  }
  const char* const kDigits = "0123456789abcdef";
  const size_t n = which.size();
  const auto second = [&](size_t i) { return which[i] >= from; };
  open_vector(d, static_cast<int>(n));
  // As many lanes at a time as come from one of the two.
  for (size_t at = 0; at < n;) {
    size_t run = at;
    while (run < n && second(run) == second(at)) ++run;
    const size_t size = std::bit_floor(run - at);
    out_ << (at == 0 ? "" : ", ");
    write(second(at) ? 1 : 0);
    out_ << ".s";
    for (size_t i = at; i < at + size; ++i) out_ << kDigits[which[i] % from];
    at += size;
  }
  close_vector();
}

template <typename Write>
void Writer::part(DType d, int n, int from, int count, Write write) {
  Word which[kMaxLanes];
  for (int i = 0; i < count; ++i) which[i] = from + i;
  shuffled(d, n, {which, static_cast<size_t>(count)}, [&](size_t) { write(); });
}

// The last program of a module, in the target's language.
Status render_last(RenderedC& out, const Module& module, const Target& target);

}  // namespace aster::codegen::program::c
