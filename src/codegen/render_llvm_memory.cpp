// Memory of programs as LLVM IR: params, arrays, loads and stores, those under masks and of
// scattered lanes. In memory conditions are bytes.
#include <algorithm>

#include "codegen/render_llvm_writer.h"

namespace aster::codegen::program::llvm {

Status Writer::param(const Step& s) {
  const Instruction& in = *s.in;
  if (in.is(kArgument)) {
    define(s) << "bitcast ", type(in.dtype, lanes(in)) << " %x" << s.words[0] << " to ";
    type(in.dtype, lanes(in)) << '\n';
    return out_.status();
  }
  const bool size = in.is(kSize);
  const uint32_t place = begin();
  out_ << "getelementptr " << (size ? "i64, i64* %sizes" : "i8*, i8** %params") << ", i64 "
       << s.words[0] << '\n';
  const uint32_t loaded = begin();
  out_ << "load " << (size ? "i64, i64* " : "i8*, i8** "), number(place) << '\n';
  if (size) {
    define(s) << (in.dtype == DType::kInt64 ? "bitcast i64 " : "trunc i64 "), number(loaded);
    out_ << " to ", type(in.dtype, 1) << '\n';
  } else {
    out_ << "%m" << s.id << " = bitcast i8* ", number(loaded) << " to ";
    memory_type(in.dtype) << "*\n";
  }
  return out_.status();
}

Status Writer::array(const Step& s) {
  if (static_cast<Space>(s.in->kind) == Space::kPrivate) return kOk;  // allocate()
  const uint32_t place = begin();
  out_ << "getelementptr i8, i8* %scratch, i64 " << scratch_ << "\n%m" << s.id << " = bitcast i8* ";
  number(place) << " to ", memory_type(s.in->dtype) << "*\n";
  scratch_ += array_bytes(program_, *s.in);
  return out_.status();
}

Status Writer::table(const Step& s) {
  const DType d = s.in->dtype;
  const auto count = static_cast<uint64_t>(s.words.size());
  Text name(out_.memory());
  name << '@' << program_.name << "_x" << int32_t{what_.lanes} << (what_.cold ? "_cold" : "")
       << ".m" << s.id;
  ASTER_TRY(name.status());
  out_ << "%m" << s.id << " = bitcast [" << count << " x ", memory_type(d) << "]* " << name.view();
  out_ << " to ", memory_type(d) << "*\n";
  // The table itself is text behind the program.
  const size_t from = out_.view().size();
  out_ << name.view() << " = private unnamed_addr constant [" << count << " x ";
  memory_type(d) << "] [";
  for (size_t i = 0; i < s.words.size(); ++i) {
    out_ << (i == 0 ? "" : ", ");
    memory_type(d) << ' ';
    d == DType::kBool ? void(out_ << (s.words[i] != 0 ? 1 : 0)) : scalar(d, s.words[i]);
  }
  out_ << "], align 64\n";
  tables_ << text_slice(out_.view(), from);
  out_.truncate(from);
  return out_.status();
}

size_t Writer::index_operand(const Step& s) {
  return s.op == Op::kStore || s.op == Op::kAtomic ? 2 : 1;
}

int Writer::touched(const Step& s, const Access& a) const {
  return s.in->lanes == kAnyLanes ? what_.lanes : static_cast<int>(a.first);
}

const Writer::Operand* Writer::mask_of(const Step& s, const Access& a) const {
  const size_t at = index_operand(s) + (a.index != kNone ? 1 : 0) + (a.gate != kNone ? 1 : 0);
  return a.mask != kNone ? &operands_[at] : nullptr;
}

uint32_t Writer::base(const Step& s, const Access& a) {
  const DType d = c::stored(program_.at(a.memory).dtype);
  Known key{a.memory, static_cast<uint32_t>(s.products.size()), 0, {}};
  bool keeps = s.products.size() <= std::size(key.products);
  for (size_t i = 0; keeps && i < s.products.size(); ++i) {
    key.products[i] = s.products[i];
    keeps = program_.at(s.products[i].at.value).op != Op::kAcc;
  }
  const auto equal = [&](const Known& one) {
    return one.memory == key.memory && one.terms == key.terms &&
           std::equal(one.products, one.products + one.terms, key.products,
                      [](const Product& x, const Product& y) {
                        return x.factor == y.factor && x.at == y.at;
                      });
  };
  if (keeps) {
    const auto* const known = std::ranges::find_if(known_, equal);
    if (known != known_.end()) return known->number;
  }
  // One step for each term, outermost loop first: what is ahead does not change further in.
  uint32_t from = 0;
  for (const Product& p : s.products) {
    const Operand x = use(p.at);
    const DType from_type = dtype_of(p.at);
    uint32_t wide = begin();
    const bool is_signed = dtype::is_signed(from_type);
    out_ << (from_type == DType::kInt64 || from_type == DType::kUInt64 ? "bitcast "
             : is_signed                                               ? "sext "
                                                                       : "zext ");
    typed(x) << " to i64\n";
    if (p.factor != 1) {
      const uint32_t narrow = wide;
      wide = begin();
      out_ << "mul i64 ", number(narrow) << ", " << p.factor << '\n';
    }
    const uint32_t before = from;
    from = begin();
    out_ << "getelementptr ", type(d, 1) << ", ", type(d, 1) << "* ";
    before == 0 ? void(out_ << "%m" << a.memory) : void(number(before));
    out_ << ", i64 ", number(wide) << '\n';
  }
  if (from == 0) {
    from = begin();
    out_ << "bitcast ", type(d, 1) << "* %m" << a.memory << " to ", type(d, 1) << "*\n";
  }
  key.number = from;
  if (keeps) (void)known_.push(key);  // without it, it is written again
  return from;
}

uint32_t Writer::moved(uint32_t from, int64_t elements, DType d) {
  if (elements == 0) return from;
  const uint32_t made = begin();
  out_ << "getelementptr ", type(d, 1) << ", ", type(d, 1) << "* ", number(from) << ", i64 ";
  out_ << elements << '\n';
  return made;
}

uint32_t Writer::vector_pointer(uint32_t from, DType d, int n) {
  if (n == 1) return from;
  const uint32_t made = begin();
  out_ << "bitcast ", type(d, 1) << "* ", number(from) << " to ", type(d, n) << "*\n";
  return made;
}

Status Writer::access(const Step& s) {
  const Access a = program_.access(*s.in);
  const size_t known = known_.size();
  if (s.op == Op::kPrefetch) return prefetch(s, a);
  if (a.gate == kNone) {
    if (s.op == Op::kStore) return store(s, a);
    if (s.op == Op::kAtomic) return atomic(s, a);
    uint32_t loaded = 0;
    ASTER_TRY(load(s, a, &loaded));
    define(s) << "bitcast ", type(s.in->dtype, lanes(*s.in)) << ' ', number(loaded) << " to ";
    type(s.in->dtype, lanes(*s.in)) << '\n';
    return out_.status();
  }
  // Nothing is touched where the gate is false.
  const Operand gate = operands_[index_operand(s) + (a.index != kNone ? 1 : 0)];
  const uint32_t before = block_, inside = label(), behind = label();
  branch(gate, inside, behind);
  start(inside);
  uint32_t loaded = 0;
  if (s.op == Op::kLoad) {
    ASTER_TRY(load(s, a, &loaded));
  } else {
    ASTER_TRY(s.op == Op::kStore ? store(s, a) : atomic(s, a));
  }
  const uint32_t last = block_;
  jump(behind);
  start(behind);
  known_.truncate(known);
  if (s.op != Op::kLoad) return out_.status();
  const int n = lanes(*s.in);
  define(s) << "phi ", type(s.in->dtype, n) << " [ ", number(loaded) << ", %b" << last << " ], [ ";
  literal(s.in->dtype, n, 0) << ", %b" << before << " ]\n";
  return out_.status();
}

uint32_t Writer::lane_of(DType d, int n, uint32_t vector, int lane) {
  if (n == 1) return vector;
  const uint32_t made = begin();
  out_ << "extractelement ", type(d, n) << ' ', number(vector) << ", i32 " << int32_t{lane} << '\n';
  return made;
}

uint32_t Writer::lane_pointer(const Step& s, const Access& a, uint32_t from, DType d, int lane) {
  if (a.index == kNone) return moved(from, a.step * lane, d);
  const Operand& index = operands_[index_operand(s)];
  const DType of = program_.at(a.index).dtype;
  const uint32_t one = begin();
  if (lanes(index.at) > 1) {
    out_ << "extractelement ", typed(index) << ", i32 " << int32_t{lane} << '\n';
  } else {
    out_ << "bitcast ", typed(index) << " to ", type(of, 1) << '\n';
  }
  const uint32_t wide = begin();
  out_ << (dtype::size(of) == 8 ? "bitcast " : dtype::is_signed(of) ? "sext " : "zext ");
  type(of, 1) << ' ', number(one) << " to i64\n";
  const uint32_t made = begin();
  out_ << "getelementptr ", type(d, 1) << ", ", type(d, 1) << "* ", number(from) << ", i64 ";
  number(wide) << '\n';
  return made;
}

// All lanes' addresses.
uint32_t Writer::pointers(const Step& s, const Access& a, uint32_t from, DType d, int n) {
  const uint32_t made = begin();
  out_ << "getelementptr ", type(d, 1) << ", ", type(d, 1) << "* ", number(from) << ", ";
  if (a.index != kNone) {
    typed(operands_[index_operand(s)]) << '\n';
    return made;
  }
  type(DType::kInt64, n) << ' ';
  for (int i = 0; i < n; ++i) out_ << (i == 0 ? "<i64 " : ", i64 ") << a.step * i;
  out_ << ">\n";
  return made;
}

uint32_t Writer::load_at(uint32_t pointer, DType d, int n) {
  const uint32_t at = vector_pointer(pointer, d, n);
  const uint32_t made = begin();
  out_ << "load ", type(d, n) << ", ", type(d, n) << "* ", number(at) << ", align ";
  out_ << static_cast<uint64_t>(dtype::size(d)) << '\n';
  return made;
}

uint32_t Writer::load_lanes(const Step& s, const Access& a, uint32_t from) {
  const int n = lanes(*s.in), first = touched(s, a);
  const DType d = c::stored(s.in->dtype);
  uint32_t last = 0;
  for (int lane = 0; lane < first; ++lane) {
    const uint32_t place = lane_pointer(s, a, from, d, lane);
    const uint32_t one = load_at(place, d, 1), before = last;
    last = begin();
    out_ << "insertelement ", type(d, n) << ' ';
    lane == 0 ? void(out_ << (first < n ? "zeroinitializer" : "poison")) : void(number(before));
    out_ << ", ", type(d, 1) << ' ', number(one) << ", i32 " << int32_t{lane} << '\n';
  }
  return last;
}

// The mask and the first lanes together, with their type; both: all_masks().
void Writer::put_mask(const Step& s, const Access& a, int n, uint32_t both) {
  type(DType::kBool, n) << ' ';
  if (both != 0) return void(number(both));
  const Operand* const mask = mask_of(s, a);
  if (mask != nullptr) return void(put(*mask));
  const int first = touched(s, a);
  for (int i = 0; i < n; ++i) out_ << (i == 0 ? "<i1 " : ", i1 ") << (i < first ? "true" : "false");
  out_ << '>';
}

uint32_t Writer::all_masks(const Step& s, const Access& a, int n) {
  const Operand* const mask = mask_of(s, a);
  const int first = touched(s, a);
  if (mask == nullptr || first == n) return 0;
  const uint32_t made = begin();
  out_ << "and ", typed(*mask) << ", <";
  for (int i = 0; i < n; ++i) out_ << (i == 0 ? "i1 " : ", i1 ") << (i < first ? "true" : "false");
  out_ << ">\n";
  return made;
}

// llvm.masked.load, .store, .gather and .scatter.
Status Writer::masked_call(const char* what, const Step& s, const Access& a, uint32_t from, DType d,
                           int n, uint32_t value, uint32_t* result) {
  const bool loads = result != nullptr, whole = a.index == kNone && a.step == 1;
  const uint32_t both = all_masks(s, a, n);
  const uint32_t place = whole ? vector_pointer(from, d, n) : pointers(s, a, from, d, n);
  Text vector(out_.memory()), pointer(out_.memory()), suffixes(out_.memory());
  const size_t at = out_.view().size();
  type(d, n);
  vector << text_slice(out_.view(), at);
  out_.truncate(at);
  if (!whole) pointer << '<' << int32_t{n} << " x ";
  type(d, whole ? n : 1);
  pointer << text_slice(out_.view(), at) << (whole ? "*" : "*>");
  out_.truncate(at);
  suffix(suffixes, d, n);
  suffixes << (whole ? ".p0" : "");
  if (!whole) suffixes << ".v" << int32_t{n} << "p0";
  suffix(suffixes, d, whole ? n : 1);
  Text declared(out_.memory());
  declared << "declare " << (loads ? vector.view() : "void") << " @llvm.masked." << what << '.'
           << suffixes.view() << '(';
  if (!loads) declared << vector.view() << ", ";
  declared << pointer.view() << ", i32, <" << int32_t{n} << " x i1>";
  if (loads) declared << ", " << vector.view();
  declared << ')';
  for (const Status status : {vector.status(), pointer.status(), suffixes.status()})
    ASTER_TRY(status);
  ASTER_TRY(declared.status());
  ASTER_TRY(declare(declared.view()));
  if (loads) *result = begin();
  out_ << "call " << (loads ? vector.view() : "void") << " @llvm.masked." << what << '.'
       << suffixes.view() << '(';
  if (!loads) out_ << vector.view() << ' ', number(value) << ", ";
  out_ << pointer.view() << ' ', number(place) << ", i32 ";
  out_ << static_cast<uint64_t>(dtype::size(d)) << ", ";
  put_mask(s, a, n, both);
  if (loads) out_ << ", " << vector.view() << " zeroinitializer";
  out_ << ")\n";
  return out_.status();
}

Status Writer::load(const Step& s, const Access& a, uint32_t* loaded) {
  const int n = lanes(*s.in), first = touched(s, a);
  const DType d = c::stored(s.in->dtype);
  const uint32_t from = moved(base(s, a), s.constant, d);
  const bool some = first < n || mask_of(s, a) != nullptr;
  const bool whole = a.index == kNone && a.step == 1;
  // Lanes at indices of 32 bits are an instruction on AVX-512.
  const bool gathers = a.index != kNone && target_.avx512 && dtype::size(d) >= 4 && n >= 4 &&
                       program_.at(a.index).dtype == DType::kInt32;
  if (n == 1 && some) {  // a lane that may not be asked for
    const Operand* const mask = mask_of(s, a);
    if (mask == nullptr) return cannot("a load of no lane");
    const uint32_t before = block_, inside = label(), behind = label();
    branch(*mask, inside, behind);
    start(inside);
    const uint32_t one = load_at(from, d, 1);
    jump(behind);
    start(behind);
    *loaded = begin();
    out_ << "phi ", type(d, 1) << " [ ", number(one) << ", %b" << inside << " ], [ ";
    literal(d, 1, 0) << ", %b" << before << " ]\n";
  } else if (whole && !some) {
    *loaded = load_at(from, d, n);
  } else if (whole) {
    ASTER_TRY(masked_call("load", s, a, from, d, n, 0, loaded));
  } else if (n == 1) {
    *loaded = load_at(lane_pointer(s, a, from, d, 0), d, 1);
  } else if (mask_of(s, a) != nullptr || gathers) {
    ASTER_TRY(masked_call("gather", s, a, from, d, n, 0, loaded));
  } else {
    *loaded = load_lanes(s, a, from);
  }
  if (s.in->dtype != DType::kBool) return kOk;
  const uint32_t bytes = *loaded;  // what is not 0 is true
  *loaded = begin();
  out_ << "icmp ne ", type(d, n) << ' ', number(bytes) << ", ", literal(d, n, 0) << '\n';
  return kOk;
}

// A whole vector that goes past the caches where its address allows it.
void Writer::store_stream(uint32_t from, DType d, int n, uint32_t value) {
  streams_ = true;
  const uint32_t place = vector_pointer(from, d, n);
  const auto store_as = [&](const char* how) {
    out_ << "store ", type(d, n) << ' ', number(value) << ", ", type(d, n) << "* ";
    number(place) << how;
  };
  const uint32_t address = begin();
  out_ << "ptrtoint ", type(d, n) << "* ", number(place) << " to i64\n";
  const uint32_t low = begin();
  out_ << "and i64 ", number(address) << ", " << target_.vector_bytes - 1 << '\n';
  const uint32_t lies = begin();
  out_ << "icmp eq i64 ", number(low) << ", 0\n";
  const uint32_t yes = label(), no = label(), behind = label();
  out_ << "br i1 ", number(lies) << ", label %b" << yes << ", label %b" << no << '\n';
  start(yes);
  store_as(", align ");
  out_ << target_.vector_bytes << ", !nontemporal !0\n";
  jump(behind);
  start(no);
  store_as(", align ");
  out_ << static_cast<uint64_t>(dtype::size(d)) << '\n';
  jump(behind);
  start(behind);
}

Status Writer::store(const Step& s, const Access& a) {
  const Operand& stored_value = operands_[1];
  const int n = lanes(stored_value.at), first = touched(s, a);
  const DType of = dtype_of(stored_value.at), d = c::stored(of);
  const uint32_t from = moved(base(s, a), s.constant, d);
  const uint32_t value = begin();
  out_ << (of == DType::kBool ? "zext " : "bitcast "), typed(stored_value) << " to ";
  type(d, n) << '\n';
  const auto put_at = [&](uint32_t place, uint32_t what, int size) {
    const uint32_t at = vector_pointer(place, d, size);
    out_ << "store ", type(d, size) << ' ', number(what) << ", ", type(d, size) << "* ";
    number(at) << ", align " << static_cast<uint64_t>(dtype::size(d)) << '\n';
  };
  const Operand* const mask = mask_of(s, a);
  const bool some = first < n || mask != nullptr, whole = a.index == kNone && a.step == 1;
  if (n == 1 && mask != nullptr) {
    const uint32_t inside = label(), behind = label();
    branch(*mask, inside, behind);
    start(inside);
    put_at(from, value, 1);
    jump(behind);
    start(behind);
    return out_.status();
  }
  if (n > 1 && whole && !some) {
    const size_t bytes = dtype::size(d) * static_cast<size_t>(n);
    if (s.in->is(kStream) && bytes == static_cast<size_t>(target_.vector_bytes)) {
      store_stream(from, d, n, value);
    } else {
      put_at(from, value, n);
    }
    return out_.status();
  }
  if (n > 1 && whole) return masked_call("store", s, a, from, d, n, value, nullptr);
  if (n > 1 && mask != nullptr) return masked_call("scatter", s, a, from, d, n, value, nullptr);
  for (int lane = 0; lane < first; ++lane) {
    const uint32_t place = lane_pointer(s, a, from, d, lane);
    put_at(place, lane_of(d, n, value, lane), 1);
  }
  return out_.status();
}

Status Writer::atomic(const Step& s, const Access& a) {
  const char* const call = s.in->with == Op::kAdd   ? "add"
                           : s.in->with == Op::kAnd ? "and"
                           : s.in->with == Op::kOr  ? "or"
                           : s.in->with == Op::kXor ? "xor"
                                                    : nullptr;
  if (call == nullptr) return cannot(uop::info(s.in->with).name);
  const Operand& value = operands_[1];
  const int n = lanes(value.at);
  const DType d = c::stored(dtype_of(value.at));
  const uint32_t from = moved(base(s, a), s.constant, d);
  const Operand* const mask = mask_of(s, a);
  for (int lane = 0; lane < touched(s, a); ++lane) {
    uint32_t behind = 0;
    if (mask != nullptr) {
      const uint32_t asked = begin();
      out_ << (n > 1 ? "extractelement " : "bitcast "), typed(*mask);
      n > 1 ? void(out_ << ", i32 " << int32_t{lane}) : void(out_ << " to i1");
      const uint32_t inside = label();
      behind = label();
      out_ << "\nbr i1 ", number(asked) << ", label %b" << inside << ", label %b" << behind << '\n';
      start(inside);
    }
    const uint32_t one = begin();
    out_ << (n > 1 ? "extractelement " : "bitcast "), typed(value);
    n > 1 ? void(out_ << ", i32 " << int32_t{lane} << '\n')
          : void((out_ << " to ", type(d, 1) << '\n'));
    const uint32_t place = lane_pointer(s, a, from, d, lane);
    (void)begin();
    out_ << "atomicrmw " << call << ' ', type(d, 1) << "* ", number(place) << ", ", type(d, 1);
    out_ << ' ', number(one) << " monotonic\n";
    if (behind == 0) continue;
    jump(behind);
    start(behind);
  }
  return out_.status();
}

Status Writer::prefetch(const Step& s, const Access& a) {
  const DType d = c::stored(program_.at(a.memory).dtype);
  const uint32_t from = moved(base(s, a), s.constant, d);
  const uint32_t place = begin();
  out_ << "bitcast ", type(d, 1) << "* ", number(from) << " to i8*\n";
  out_ << "call void @llvm.prefetch.p0i8(i8* ", number(place) << ", i32 ";
  out_ << (s.in->is(kWrite) ? 1 : 0) << ", i32 3, i32 1)\n";
  return declare("declare void @llvm.prefetch.p0i8(i8*, i32, i32, i32)");
}

}  // namespace aster::codegen::program::llvm
