// From steps to statements. A register is a variable t<value>_<instance>, a memory a pointer
// m<value>.
#include "codegen/render_c.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "codegen/render_c_types.h"
#include "codegen/walk.h"
#include "dtype/convert.h"

namespace aster::codegen::program {
namespace {

using namespace c;  // NOLINT: the renderer's own

// A function at lanes, wanted by a call.
struct Wanted {
  size_t program;
  uint8_t lanes;
  bool operator==(const Wanted&) const = default;
};

// The statements of one program. Conditions are masks as wide as what was compared first; their
// users convert them.
class Writer {
 public:
  Writer(Text& out, const Module& module, size_t program, uint8_t call_lanes, const Target& target,
         Types& types, Vec<Wanted>& wanted)
      : out_(out),
        module_(module),
        program_(module.programs[program]),
        call_lanes_(call_lanes),
        target_(target),
        types_(types),
        wanted_(wanted),
        masks_(out.memory()) {}

  Status run() {
    ASTER_TRY(masks_.resize(program_.code().size(), DType::kInt32));
    ASTER_TRY(program_.function ? open_function() : open_program());
    Walker<Writer> walker(program_, *this);
    ASTER_TRY(walker.run());
    if (!program_.function && !tasks_) out_ << "}\n";
    out_ << "}\n";
    return out_.status();
  }
  int64_t scratch_bytes() const { return scratch_; }

  // ---- What the walker calls ----

  Status step(const Step& s) {
    if (s.op == Op::kBarrier) return cannot("a barrier");
    if (s.op == Op::kResult) return out_ << "return ", operand(s, 0), out_ << ";\n", out_.status();
    if (s.op == Op::kParam) return param(s);
    if (s.op == Op::kArray || s.op == Op::kTable) return array(s);
    if (is_access(s.op)) return access(s);
    if (s.op == Op::kSet) {
      name(s.operands[0]);
      out_ << " = ";
      converted(s, 1, s.operands[0].value);
      out_ << ";\n";
      return out_.status();
    }
    ASTER_TRY(learn_mask(s));
    if (s.op == Op::kAcross) return across(s);
    define(s);
    ASTER_TRY(value(s));
    out_ << ";\n";
    return out_.status();
  }
  Status open(const Step& s) {
    if (s.op == Op::kIf) {
      out_ << "if (";
      operand(s, 0);
      out_ << ") {\n";
    } else if (s.in->kind == static_cast<uint8_t>(LoopKind::kTask)) {
      open_tasks(s);
    } else {
      out_ << "for (";
      type(s.in->dtype, 1);
      out_ << ' ';
      name(s.result);
      out_ << " = ";
      bound(s, false);
      out_ << "; ";
      name(s.result);
      out_ << " < ";
      bound(s, true);
      out_ << "; ";
      name(s.result);
      out_ << " += " << s.words[2] << ") {\n";
    }
    return out_.status();
  }
  Status close(const Step& s) {
    out_ << "}\n";
    const bool task = s.op == Op::kLoop && s.in->kind == static_cast<uint8_t>(LoopKind::kTask);
    if (task && innermost_tasks(s.id)) out_ << "done += count" << s.id << ";\n}\n";
    return out_.status();
  }

 private:
  Status cannot(const char* what) {
    return ASTER_FAIL(kUNSUPPORTED, "%s: no C for %s on this target", program_.name, what);
  }
  int lanes(const Instruction& in) const { return in.lanes == kAnyLanes ? call_lanes_ : in.lanes; }
  int lanes(Register r) const { return lanes(program_.at(r.value)); }
  DType dtype_of(Register r) const { return program_.at(r.value).dtype; }
  // Of a register's variable.
  DType held(Id id) const {
    const Instruction& in = program_.at(id);
    return in.dtype == DType::kBool && lanes(in) > 1 ? masks_[id] : in.dtype;
  }
  void type(DType d, int n) { types_.name(out_, d, n); }
  Text& name(Register r) { return out_ << 't' << r.value << '_' << r.instance; }
  void define(const Step& s) {
    if (s.op != Op::kAcc) out_ << "const ";
    type(held(s.id), lanes(*s.in));
    out_ << ' ';
    name(s.result) << " = ";
  }
  void operand(const Step& s, size_t i) { name(s.operands[i]); }
  // An operand as a value like that of `like`, whose masks may be wider or narrower.
  void converted(const Step& s, size_t i, Id like) { as(s.operands[i], held(like)); }
  void as(Register r, DType mask) {
    const bool converts = dtype_of(r) == DType::kBool && lanes(r) > 1 && held(r.value) != mask;
    if (!converts) {
      name(r);
      return;
    }
    out_ << "__builtin_convertvector(";
    name(r) << ", ";
    type(mask, lanes(r));
    out_ << ')';
  }

  // ---- Function and launch ----

  Status open_function() {
    out_ << "static inline ";
    const Instruction& result = program_.at(program_.operands(program_.code().back())[0]);
    type(argument_type(result), lanes(result));
    out_ << ' ' << program_.name << "_x" << int32_t{call_lanes_} << '(';
    bool first = true;
    // By slot: a call gives its arguments in that order.
    for (Word slot = 0;; ++slot) {
      const Instruction* found = nullptr;
      for (const Instruction& in : program_.code()) {
        if (in.op == Op::kParam && program_.words(in)[0] == slot) found = &in;
      }
      if (found == nullptr) break;
      out_ << (first ? "" : ", ");
      type(argument_type(*found), lanes(*found));
      out_ << " a" << slot;
      first = false;
    }
    out_ << ") {\n";
    return out_.status();
  }
  // Conditions go in and out of functions as masks of 32 bits.
  DType argument_type(const Instruction& in) const {
    return in.dtype == DType::kBool && lanes(in) > 1 ? DType::kInt32 : in.dtype;
  }
  Status open_program() {
    for (const Instruction& in : program_.code()) {
      tasks_ |= in.op == Op::kLoop && in.kind == static_cast<uint8_t>(LoopKind::kTask);
    }
    out_ << "void " << program_.name
         << "(void *const *params, const long long *sizes, void *scratch, long long begin, "
            "long long end) {\n(void)sizes, (void)scratch, (void)params;\n"
         << (tasks_ ? "long long done = 0;\n" : "if (begin <= 0 && end > 0) {\n");
    return out_.status();
  }
  bool innermost_tasks(Id id) const {
    int depth = 0;
    for (Id i = id + 1; i < program_.code().size() && depth >= 0; ++i) {
      const Instruction& in = program_.at(i);
      if (in.op == Op::kLoop && in.kind == static_cast<uint8_t>(LoopKind::kTask)) return false;
      depth += is_block(in.op) ? 1 : in.op == Op::kEnd ? -1 : 0;
    }
    return true;
  }
  // Outer loops are gone along, the innermost by those of its tasks that are asked for.
  void open_tasks(const Step& s) {
    const bool innermost = innermost_tasks(s.id);
    const auto write = [&](const char* text) { out_ << text << s.id; };
    if (innermost) {
      out_ << "{\nconst long long ";
      write("low");
      out_ << " = ";
      bound(s, false);
      out_ << ", ";
      write("high");
      out_ << " = ";
      bound(s, true);
      out_ << ", ";
      write("count");
      out_ << " = ";
      write("high");
      write(" > low");
      write(" ? (high");
      write(" - low");
      out_ << " + " << s.words[2] - 1 << ") / " << s.words[2] << " : 0;\nfor (long long ";
      write("task");
      out_ << " = begin > done ? begin - done : 0; ";
      write("task");
      write(" < count");
      write(" && task");
      out_ << " < end - done; ++";
      write("task");
      out_ << ") {\nconst ";
      type(s.in->dtype, 1);
      out_ << ' ';
      name(s.result) << " = ";
      write("low");
      write(" + task");
      out_ << " * " << s.words[2] << ";\n";
      return;
    }
    out_ << "for (";
    type(s.in->dtype, 1);
    out_ << ' ';
    name(s.result) << " = ";
    bound(s, false);
    out_ << "; ";
    name(s.result) << " < ";
    bound(s, true);
    out_ << "; ";
    name(s.result) << " += " << s.words[2] << ") {\n";
  }
  void bound(const Step& s, bool high) {
    if (s.in->is(high ? kImmediateHigh : kImmediate)) {
      out_ << s.words[high ? 1 : 0];
    } else {
      name(high ? s.operands.back() : s.operands.front());
    }
  }

  // ---- Memory ----

  Status param(const Step& s) {
    const Instruction& in = *s.in;
    out_ << (in.is(kSize) || in.is(kArgument) || in.is(kWrite) ? "" : "const ");
    if (in.is(kArgument)) {
      masks_[s.id] = DType::kInt32;
      define(s);
      out_ << 'a' << s.words[0] << ";\n";
    } else if (in.is(kSize)) {
      define(s);
      out_ << '(';
      type(in.dtype, 1);
      out_ << ")sizes[" << s.words[0] << "];\n";
    } else {
      type(in.dtype, 1);
      out_ << " *const __restrict m" << s.id << " = params[" << s.words[0] << "];\n";
    }
    return out_.status();
  }
  Status array(const Step& s) {
    const Instruction& in = *s.in;
    if (s.op == Op::kTable) {
      out_ << "static const ";
      type(in.dtype, 1);
      out_ << " m" << s.id << "[] = {";
      for (size_t i = 0; i < s.words.size(); ++i) {
        out_ << (i == 0 ? "" : ", ");
        constant(in.dtype, s.words[i]);
      }
      out_ << "};\n";
      return out_.status();
    }
    const int64_t elements = in.constant + s.words[0];
    type(in.dtype, 1);
    if (static_cast<Space>(in.kind) == Space::kPrivate) {
      out_ << " m" << s.id << '[' << elements << "] __attribute__((aligned(64)));\n";
      return out_.status();
    }
    out_ << " *const m" << s.id << " = (void *)((char *)scratch + " << scratch_ << ");\n";
    const int64_t bytes = elements * static_cast<int64_t>(dtype::size(in.dtype));
    scratch_ += (bytes + 63) / 64 * 64;
    return out_.status();
  }

  // The element of a lane, or of the first one.
  void element(const Step& s, const Access& a, int lane) {
    out_ << 'm' << a.memory << '[';
    address(s, a, lane);
    out_ << ']';
  }
  void address(const Step& s, const Access& a, int lane) {
    for (const Product& p : s.products) {
      out_ << "(long long)";
      name(p.at);
      if (p.factor != 1) out_ << " * " << p.factor;
      out_ << " + ";
    }
    int64_t constant = s.constant;
    if (a.index != kNone) {
      out_ << "(long long)";
      lane_of(s.operands[index_operand(s)], lane) << " + ";
    } else {
      constant += a.step * lane;
    }
    out_ << constant;
  }
  static size_t index_operand(const Step& s) {
    return s.op == Op::kStore || s.op == Op::kAtomic ? 2 : 1;
  }

  Status access(const Step& s) {
    const Access a = program_.access(*s.in);
    const size_t gate = index_operand(s) + (a.index != kNone ? 1 : 0);
    const size_t mask = gate + (a.gate != kNone ? 1 : 0);
    if (s.op == Op::kPrefetch) {
      out_ << "__builtin_prefetch(&";
      element(s, a, 0);
      out_ << ", " << (s.in->is(kWrite) ? "1" : "0") << ");\n";
      return out_.status();
    }
    if (s.op == Op::kLoad) ASTER_TRY(learn_mask(s));
    if (s.op == Op::kLoad) define(s);
    if (a.gate != kNone) {
      out_ << (s.op == Op::kLoad ? "" : "if (");
      name(s.operands[gate]) << (s.op == Op::kLoad ? " ? " : ") {\n");
    }
    const Register* const masked = a.mask != kNone ? &s.operands[mask] : nullptr;
    if (s.op == Op::kLoad) {
      load(s, a, masked);
      if (a.gate != kNone) {
        out_ << " : (";
        type(held(s.id), lanes(*s.in));
        out_ << "){0}";
      }
      out_ << ";\n";
      return out_.status();
    }
    ASTER_TRY(s.op == Op::kStore ? store(s, a, masked) : atomic(s, a, masked));
    if (a.gate != kNone) out_ << "}\n";
    return out_.status();
  }
  int first_lanes(const Step& s, const Access& a) const {
    return s.in->lanes == kAnyLanes ? call_lanes_ : static_cast<int>(a.first);
  }
  static bool contiguous(const Access& a) { return a.index == kNone && a.step == 1; }
  // Whether the target has an instruction for some lanes of a contiguous vector.
  bool masks_memory(DType d, int n) const {
    const size_t bytes = dtype::size(d) * static_cast<size_t>(n);
    return target_.avx512 && target_.vector_bytes >= 64 && dtype::size(d) >= 4 && n > 1 &&
           (bytes == 16 || bytes == 32 || bytes == 64) && d != DType::kBool;
  }
  // The bits of the lanes that are touched.
  void write_bits(DType d, int n, int first, const Register* mask) {
    const uint64_t some = first == 64 ? ~uint64_t{0} : (uint64_t{1} << first) - 1;
    if (mask == nullptr) {
      out_ << some;
      return;
    }
    const int32_t bits = static_cast<int32_t>(dtype::bits(d)) * n;
    out_ << "(__builtin_ia32_cvt" << (dtype::size(d) == 4 ? "d" : "q") << "2mask" << bits << '(';
    as(*mask, integer(d, true));
    out_ << ") & " << some << ')';
  }
  void write_masked(const Step& s, const Access& a, DType d, int n, int first,
                    const Register* mask) {
    const DType whole = integer(d, true);
    const bool loads = s.op == Op::kLoad;
    const int32_t bits = static_cast<int32_t>(dtype::bits(d)) * n;
    if (loads) {
      out_ << '(';
      type(d, n);
      out_ << ')';
    }
    out_ << "__builtin_ia32_" << (loads ? "load" : "store")
         << (dtype::size(d) == 4 ? "dqusi" : "dqudi") << bits << "_mask(("
         << (loads ? "const " : "") << c_type(whole) << " *)&";
    element(s, a, 0);
    out_ << ", (";
    type(whole, n);
    out_ << ')';
    if (loads) {
      out_ << "{0}";
    } else {
      name(s.operands[1]);
    }
    out_ << ", ";
    write_bits(d, n, first, mask);
    out_ << ')';
  }

  void load(const Step& s, const Access& a, const Register* mask) {
    const int n = lanes(*s.in), first = first_lanes(s, a);
    const DType d = s.in->dtype;
    const bool some = first < n || mask != nullptr;
    if (n > 1 && contiguous(a) && some && masks_memory(d, n)) {
      write_masked(s, a, d, n, first, mask);
    } else if (n > 1 && contiguous(a) && !some && d == DType::kBool) {
      out_ << '(';
      type(DType::kInt8, n);
      out_ << ")-*(const ";
      types_.unaligned(out_, d, n);
      out_ << " *)&";
      element(s, a, 0);
    } else if (n > 1 && contiguous(a) && !some) {
      out_ << '(';
      type(d, n);
      out_ << ")*(const ";
      types_.unaligned(out_, d, n);
      out_ << " *)&";
      element(s, a, 0);
    } else {
      if (n > 1) out_ << '(', type(held(s.id), n), out_ << "){";
      for (int lane = 0; lane < first; ++lane) {
        if (mask != nullptr) lane_of(*mask, lane) << " ? ";
        out_ << (d == DType::kBool && n > 1 ? "-" : "");
        element(s, a, lane);
        out_ << (mask != nullptr ? " : 0" : "") << (lane + 1 < first ? ", " : "");
      }
      if (n > 1) out_ << '}';
    }
  }
  Text& lane_of(Register r, int lane) {
    name(r);
    if (lanes(r) > 1) out_ << '[' << int32_t{lane} << ']';
    return out_;
  }
  Status store(const Step& s, const Access& a, const Register* mask) {
    const Register value = s.operands[1];
    const int n = lanes(value), first = first_lanes(s, a);
    const DType d = dtype_of(value);
    const bool truth = d == DType::kBool && n > 1;
    if (n > 1 && contiguous(a) && (first < n || mask != nullptr) && masks_memory(d, n)) {
      write_masked(s, a, d, n, first, mask);
      out_ << ";\n";
    } else if (n > 1 && contiguous(a) && mask == nullptr && !truth) {
      // Vectors of 2, 4, 8, .. lanes, as many as there are.
      for (int at = 0; at < first;) {
        const int size = static_cast<int>(std::bit_floor(static_cast<unsigned>(first - at)));
        piece(s, a, value, at, size);
        at += size;
      }
    } else {
      for (int lane = 0; lane < first; ++lane) {
        if (mask != nullptr) {
          out_ << "if (";
          lane_of(*mask, lane) << ") ";
        }
        element(s, a, lane);
        out_ << " = ";
        lane_of(value, lane) << (truth ? " & 1" : "") << ";\n";
      }
    }
    return out_.status();
  }
  void piece(const Step& s, const Access& a, Register value, int at, int size) {
    if (size == 1) {
      element(s, a, at);
      out_ << " = ";
      lane_of(value, at) << ";\n";
      return;
    }
    out_ << "*(";
    types_.unaligned(out_, dtype_of(value), size);
    out_ << " *)&";
    element(s, a, at);
    out_ << " = ";
    if (size == lanes(value)) {
      name(value) << ";\n";
      return;
    }
    out_ << "__builtin_shufflevector(";
    name(value) << ", ";
    name(value);
    for (int i = 0; i < size; ++i) out_ << ", " << int32_t{at + i};
    out_ << ");\n";
  }
  Status atomic(const Step& s, const Access& a, const Register* mask) {
    const char* call = s.in->with == Op::kAdd   ? "add"
                       : s.in->with == Op::kAnd ? "and"
                       : s.in->with == Op::kOr  ? "or"
                       : s.in->with == Op::kXor ? "xor"
                                                : nullptr;
    if (call == nullptr) return cannot(uop::info(s.in->with).name);
    for (int lane = 0; lane < first_lanes(s, a); ++lane) {
      if (mask != nullptr) {
        out_ << "if (";
        lane_of(*mask, lane) << ") ";
      }
      out_ << "__atomic_fetch_" << call << "(&";
      element(s, a, lane);
      out_ << ", ";
      lane_of(s.operands[1], lane) << ", __ATOMIC_RELAXED);\n";
    }
    return out_.status();
  }

  // ---- Values ----

  // How wide the mask of a vector of conditions is.
  Status learn_mask(const Step& s) {
    if (s.in->dtype != DType::kBool || lanes(*s.in) == 1) return kOk;
    DType mask = DType::kInt32;
    if (s.op == Op::kLoad) {
      mask = DType::kInt8;
    } else if (s.op != Op::kSpread && s.op != Op::kCall && !s.operands.empty()) {
      const Register last = s.operands.back();
      mask =
          dtype_of(last) == DType::kBool ? held(last.value) : integer(stored(dtype_of(last)), true);
    }
    // Parts of Join and Turn are the instruction's: the first one decides.
    if (is_first_part(s)) masks_[s.id] = mask;
    return kOk;
  }
  bool is_first_part(const Step& s) const {
    return s.operands.empty() || s.operands[0].value != s.id;
  }
  void constant(DType d, Word word) {
    if (dtype::is_narrow_float(d)) {
      uint16_t bits = 0;  // as it is stored
      dtype::store_double(d, &bits, std::bit_cast<double>(word));
      out_ << uint32_t{bits};
    } else if (d == DType::kUInt64) {
      out_ << static_cast<uint64_t>(word) << "ull";
    } else if (d == DType::kInt64 && word == INT64_MIN) {
      out_ << "(-9223372036854775807ll - 1)";
    } else if (!dtype::is_float(d)) {
      out_ << word << (d == DType::kInt64 ? "ll" : "");
    } else {
      const double value = std::bit_cast<double>(word);
      const char* const end = d == DType::kFloat32 ? "f" : "";
      if (std::isnan(value)) {
        out_ << "__builtin_nan" << end << "(\"\")";
      } else if (std::isinf(value)) {
        out_ << (value < 0 ? "-" : "") << "__builtin_inf" << end << "()";
      } else {
        out_.format("%a%s", value, end);
      }
    }
  }
  // A scalar written by `write` in all lanes.
  template <typename Write>
  void spread(DType d, int n, Write write) {
    if (n == 1) return write();
    out_ << '(';
    type(d, n);
    out_ << "){";
    for (int i = 0; i < n; ++i) {
      out_ << (i == 0 ? "" : ", ");
      write();
    }
    out_ << '}';
  }

  Status value(const Step& s) {
    const int n = lanes(*s.in);
    const DType d = held(s.id);
    if (s.op == Op::kConst) return literal(s, n);
    if (s.op == Op::kAxis) return out_ << int32_t{s.values[s.in->axis]}, kOk;
    if (s.op == Op::kLanes) {
      out_ << '(';
      type(d, n);
      out_ << "){";
      for (int i = 0; i < n; ++i) out_ << (i == 0 ? "" : ", ") << int32_t{i};
      out_ << '}';
      return kOk;
    }
    if (s.op == Op::kAcc) {
      if (!s.in->is(kImmediate)) return converted(s, 0, s.id), kOk;
      return literal(s, n);
    }
    if (s.op == Op::kSpread) {
      const bool truth = s.in->dtype == DType::kBool && n > 1;
      spread(d, n, [&] {
        out_ << (truth ? "-" : "");
        operand(s, 0);
      });
      return kOk;
    }
    if (s.op == Op::kLane) {
      lane_of(s.operands[0], static_cast<int>(s.words[0]))
          << (s.in->dtype == DType::kBool ? " != 0" : "");
      return kOk;
    }
    if (s.op == Op::kShuffle) return shuffle(s, n);
    if (s.op == Op::kBitcast) return bitcast(s, n);
    if (s.op == Op::kCast || s.op == Op::kToInt) return cast(s, n);
    if (s.op == Op::kCall) return call(s, n);
    return arithmetic(s, n);
  }
  Status literal(const Step& s, int n) {
    const DType d = s.in->dtype;
    const bool zero = s.in->op == Op::kTurn || (s.words[0] == 0 && n > 1);
    if (zero) {
      out_ << '(';
      type(held(s.id), n);
      out_ << "){0}";
      return kOk;
    }
    const bool truth = d == DType::kBool && n > 1;
    spread(held(s.id), n, [&] { truth ? void(out_ << "-1") : constant(d, s.words[0]); });
    return kOk;
  }
  Status shuffle(const Step& s, int n) {
    const int from = lanes(s.operands[0]);
    const auto lane = [&](Word word) -> Text& {
      const bool second = word >= from;
      return lane_of(s.operands[second ? 1 : 0], static_cast<int>(word - (second ? from : 0)));
    };
    const bool truth = s.in->dtype == DType::kBool;
    if (n == 1) return lane(s.words[0]) << (truth && from > 1 ? " != 0" : ""), kOk;
    if (from == 1) {
      out_ << '(';
      type(held(s.id), n);
      out_ << "){";
      for (int i = 0; i < n; ++i) {
        out_ << (i == 0 ? "" : ", ") << (truth ? "-" : "");
        lane(s.words[static_cast<size_t>(i)]);
      }
      out_ << '}';
      return kOk;
    }
    out_ << "__builtin_shufflevector(";
    converted(s, 0, s.id);
    out_ << ", ";
    converted(s, 1, s.id);
    for (Word word : s.words) out_ << ", " << word;
    out_ << ')';
    return kOk;
  }
  Status bitcast(const Step& s, int n) {
    if (n > 1) {
      out_ << '(';
      type(s.in->dtype, n);
      out_ << ')';
      operand(s, 0);
      return kOk;
    }
    out_ << "((union { ";
    type(dtype_of(s.operands[0]), 1);
    out_ << " a; ";
    type(s.in->dtype, 1);
    out_ << " b; }){";
    operand(s, 0);
    out_ << "}).b";
    return kOk;
  }
  Status cast(const Step& s, int n) {
    const DType from = dtype_of(s.operands[0]), to = s.in->dtype;
    if (from == to) return converted(s, 0, s.id), kOk;
    if (dtype::is_narrow_float(from) || dtype::is_narrow_float(to)) {
      return cannot("casts of narrow floats");
    }
    const bool checked =
        s.op == Op::kCast && dtype::is_float(from) && to != DType::kBool && !dtype::is_float(to);
    if (checked) return float_to_int(s, n, from);
    if (n == 1) {
      out_ << '(';
      type(to, 1);
      out_ << ")(";
      operand(s, 0);
      out_ << (to == DType::kBool ? " != 0)" : ")");
    } else if (to == DType::kBool) {
      out_ << '(';
      type(held(s.id), n);
      out_ << ")(";
      operand(s, 0);
      out_ << " != (";
      type(from, n);
      out_ << "){0})";
    } else {
      out_ << "__builtin_convertvector(";
      // A mask is 0 or -1.
      if (from == DType::kBool) out_ << '-';
      operand(s, 0);
      out_ << ", ";
      type(to, n);
      out_ << ')';
    }
    return kOk;
  }
  // By way of int64, 0 where that cannot hold it.
  Status float_to_int(const Step& s, int n, DType from) {
    const char* const end = from == DType::kFloat32 ? "f" : "";
    if (n > 1) out_ << '(', type(s.in->dtype, n), out_ << "){";
    for (int i = 0; i < n; ++i) {
      out_ << (i == 0 ? "" : ", ") << '(';
      type(s.in->dtype, 1);
      out_ << ")(";
      lane_of(s.operands[0], i) << " > -0x1p63" << end << " && ";
      lane_of(s.operands[0], i) << " < 0x1p63" << end << " ? (long long)";
      lane_of(s.operands[0], i) << " : 0)";
    }
    if (n > 1) out_ << '}';
    return kOk;
  }
  Status call(const Step& s, int n) {
    const Wanted want{static_cast<size_t>(s.words[0]), static_cast<uint8_t>(n)};
    if (std::ranges::find(wanted_, want) == wanted_.end()) ASTER_TRY(wanted_.push(want));
    out_ << module_.programs[want.program].name << "_x" << int32_t{n} << '(';
    for (size_t i = 0; i < s.operands.size(); ++i) {
      out_ << (i == 0 ? "" : ", ");
      as(s.operands[i], DType::kInt32);
    }
    out_ << ')';
    return kOk;
  }

  // ---- Rows ----

  bool has_feature(Feature feature) const {
    if (feature == SSE) return target_.vector_bytes >= 16;
    if (feature == FMA) return target_.vector_bytes >= 32 && target_.fma;
    if (feature == AVX512) return target_.vector_bytes >= 64 && target_.avx512;
    return true;
  }
  const Row* find(Op op, DType d, int n) const {
    const int bytes = static_cast<int>(dtype::size(d)) * n;
    for (const Row& row : kRows) {
      if (row.op != op || (row.elements & elements_of(d)) == 0 || !has_feature(row.feature))
        continue;
      const bool fits = row.width == ANYW || (row.width == ONE && n == 1) ||
                        (row.width == VEC && n > 1) || (row.width == W16 && bytes == 16 && n > 1) ||
                        (row.width == W32 && bytes == 32) || (row.width == W64 && bytes == 64);
      if (fits) return &row;
    }
    return nullptr;
  }
  Status arithmetic(const Step& s, int n) {
    if (s.op == Op::kWhere) return where(s, n);
    // All operands of a condition's arithmetic are as wide as the result's mask.
    const DType d = dtype_of(s.operands.back());
    const DType computed = d == DType::kBool ? d : stored(d);
    if (dtype::is_narrow_float(d)) return cannot("arithmetic of narrow floats");
    const Row* row = find(s.op, computed, n);
    const auto write = [&](int lane) {
      return [&, lane](size_t i) {
        if (lane >= 0) {
          lane_of(s.operands[i], lane);
        } else {
          as(s.operands[i], d == DType::kBool ? held(s.id) : DType::kNone);
        }
      };
    };
    if (row != nullptr) {
      out_ << '(';
      type(held(s.id), n);
      out_ << ")(";
      expand(row->text, d == DType::kBool && n > 1 ? held(s.id) : d, n, write(-1));
      out_ << ')';
      return kOk;
    }
    row = find(s.op, computed, 1);
    if (row == nullptr || n == 1) return cannot(uop::info(s.op).name);
    out_ << '(';
    type(held(s.id), n);
    out_ << "){";
    const bool truth = s.in->dtype == DType::kBool;
    for (int lane = 0; lane < n; ++lane) {
      out_ << (lane == 0 ? "" : ", ") << (truth ? "-(" : "(");
      expand(row->text, d, 1, write(lane));
      out_ << ')';
    }
    out_ << '}';
    return kOk;
  }
  Status where(const Step& s, int n) {
    const DType d = held(s.id);
    if (n == 1) {
      operand(s, 0);
      out_ << " ? ";
      operand(s, 1);
      out_ << " : ";
      operand(s, 2);
      return kOk;
    }
    types_.select(out_, d, n);
    out_ << '(';
    as(s.operands[0], integer(stored(d), true));
    out_ << ", ";
    converted(s, 1, s.id);
    out_ << ", ";
    converted(s, 2, s.id);
    out_ << ')';
    return kOk;
  }
  // A row's text; operands are written by `write(i)`.
  template <typename Write>
  void expand(std::string_view text, DType d, int n, Write write) {
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] != '$') {
        out_ << text[i];
        continue;
      }
      const char what = text[++i];
      if (what >= '0' && what <= '2') write(static_cast<size_t>(what - '0'));
      if (what == 't') type(d, n);
      if (what == 'c') type(d, 1);
      if (what == 'i') type(integer(d, true), n);
      if (what == 'u') type(integer(d, false), n);
      if (what == 'e') out_ << static_cast<uint64_t>(dtype::bits(d));
      if (what == 'f') out_ << (d == DType::kFloat32 ? "f" : "");
      if (what == 's') {
        // $s($i, m, a, b): the mask's type is the helper's first argument.
        types_.select(out_, d, n);
        out_ << "((";
        type(integer(d, true), n);
        out_ << ")(";
        const size_t from = i + 6, comma = top_comma(text, from);  // behind "s($i, "
        expand(text_slice(text, from, comma - from), d, n, write);
        out_ << ')';
        i = comma - 1;
      }
    }
  }
  // The first comma outside of brackets.
  static size_t top_comma(std::string_view text, size_t from) {
    int depth = 0;
    for (; from < text.size(); ++from) {
      depth += text[from] == '(' ? 1 : text[from] == ')' ? -1 : 0;
      if (text[from] == ',' && depth == 0) break;
    }
    return from;
  }

  // Halves of lanes combined, in variables a of half as many lanes each.
  Status across(const Step& s) {
    const Register x = s.operands[0];
    const bool truth = s.in->dtype == DType::kBool;
    const DType d = held(x.value);
    const DType operands = truth ? DType::kBool : d;
    int n = lanes(x);
    const auto variable = [&](int size) -> Text& {
      if (size == lanes(x)) return name(x);
      return name(s.result) << 'h' << int32_t{size};
    };
    for (int half = n / 2; half > 0; n = half, half /= 2) {
      const Row* const row = find(s.in->with, operands, half);
      if (row == nullptr || dtype::is_narrow_float(s.in->dtype)) {
        return cannot(uop::info(s.in->with).name);
      }
      out_ << "const ";
      type(d, half);
      out_ << ' ';
      variable(half) << " = (";
      type(d, half);
      out_ << ")(";
      expand(row->text, d, half, [&](size_t i) {
        const int from = i == 0 ? 0 : half;
        if (half == 1) {
          variable(n) << '[' << int32_t{from} << ']';
          return;
        }
        out_ << "__builtin_shufflevector(";
        variable(n) << ", ";
        variable(n);
        for (int lane = 0; lane < half; ++lane) out_ << ", " << int32_t{from + lane};
        out_ << ')';
      });
      out_ << ");\n";
    }
    define(s);
    variable(1) << (truth ? " != 0" : "") << ";\n";
    return out_.status();
  }

  Text& out_;
  const Module& module_;
  const Program& program_;
  uint8_t call_lanes_;
  const Target& target_;
  Types& types_;
  Vec<Wanted>& wanted_;
  Vec<DType> masks_;
  int64_t scratch_ = 0;
  bool tasks_ = false;
};

}  // namespace

Status render_c(RenderedC& out, const Module& module, const Target& target) {
  if (module.programs.empty() || module.programs.back().function) {
    return ASTER_FAIL(kARGUMENT, "no program to render behind %zu functions",
                      module.programs.size());
  }
  Memory& memory = out.text.memory();
  Types types;
  Vec<Wanted> wanted(memory);
  Text body(memory), functions(memory);
  const size_t last = module.programs.size() - 1;
  Writer writer(body, module, last, 1, target, types, wanted);
  ASTER_TRY(writer.run());
  out.scratch_bytes = writer.scratch_bytes();
  // Functions stand before their callers in the module: the last ones want those before them.
  Vec<Text> texts(memory);
  for (size_t i = last; i-- > 0;) {
    for (size_t w = 0; w < wanted.size(); ++w) {
      if (wanted[w].program != i) continue;
      ASTER_TRY(texts.push(Text(memory)));
      ASTER_TRY(Writer(texts.back(), module, i, wanted[w].lanes, target, types, wanted).run());
    }
  }
  types.write(out.text);
  for (size_t i = texts.size(); i-- > 0;) out.text << texts[i].view();
  out.text << body.view();
  return out.text.status();
}

}  // namespace aster::codegen::program
