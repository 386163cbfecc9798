// The machine: opcodes, operands, the stack and the memo.
#include "nn/pickle.h"

#include <array>
#include <bit>
#include <charconv>
#include <cstring>

#include "nn/archive.h"

namespace aster::nn {
namespace {

constexpr int kNewestProtocol = 5;
constexpr size_t kMostValues = size_t{1} << 26;  // of all pickles of a file

}  // namespace

Pickle::Pickle(Memory& memory, std::span<const uint8_t> bytes, bool skips)
    : memory_(memory),
      bytes_(bytes),
      values_(memory),
      lists_(memory),
      stack_(memory),
      marks_(memory),
      memo_(memory),
      storages_(memory),
      tensors_(memory),
      named_(memory),
      skips_(skips),
      skipped_(memory) {}

const Pickle::Row* Pickle::row_of(uint8_t opcode) {
  static constexpr auto kRows = [] {
    std::array<Row, 256> rows{};
#define PICKLE(code, follows, action, argument) \
  rows[static_cast<uint8_t>(code)] = {Follows::follows, &Pickle::action, argument};
#include "nn/pickle.def"
#undef PICKLE
    return rows;
  }();
  const Row* row = &kRows[opcode];
  return row->action == nullptr ? nullptr : row;
}

Status Pickle::broken(const char* what) const {
  return ASTER_FAIL(kFORMAT, "a damaged pickle, byte %zu: %s", at_, what);
}

Status Pickle::load(Index* out) {
  stack_.clear();
  marks_.clear();
  memo_.clear();
  for (done_ = false; !done_;) {
    if (at_ >= bytes_.size()) return broken("it ends too early");
    const uint8_t opcode = bytes_[at_];
    const Row* row = row_of(opcode);
    if (row == nullptr) {
      return ASTER_FAIL(kUNSUPPORTED, "a pickle with opcode 0x%02x at byte %zu", opcode, at_);
    }
    ++at_;
    Operand given{};
    ASTER_TRY(operand(&given, row->follows));
    ASTER_TRY((this->*row->action)(given, row->argument));
  }
  ASTER_TRY(pop_value(out));
  return stack_.empty() && marks_.empty() ? kOk : broken("values are left over");
}

// ---- Operands ----

Status Pickle::take(std::string_view* out, uint64_t count) {
  if (count > bytes_.size() - at_) return broken("it ends too early");
  *out = {reinterpret_cast<const char*>(bytes_.data()) + at_, static_cast<size_t>(count)};
  at_ += static_cast<size_t>(count);
  return kOk;
}

Status Pickle::line(std::string_view* out) {
  const std::string_view rest(reinterpret_cast<const char*>(bytes_.data()) + at_,
                              bytes_.size() - at_);
  const size_t end = rest.find('\n');
  if (end == std::string_view::npos) return broken("a line without an end");
  *out = text_slice(rest, 0, end);
  at_ += end + 1;
  return kOk;
}

Status Pickle::operand(Operand* out, Follows follows) {
  struct Shape {
    uint8_t bytes;
    bool counts, is_signed;
  };
  constexpr Shape kShapes[] = {{0, false, false}, {1, false, false}, {2, false, false},
                               {4, false, false}, {4, false, true},  {8, false, false},
                               {1, true, false},  {4, true, false},  {8, true, false}};
  if (follows == Follows::kLine || follows == Follows::kTwoLines) {
    ASTER_TRY(line(&out->data));
    return follows == Follows::kLine ? kOk : line(&out->second);
  }
  const Shape shape = kShapes[static_cast<size_t>(follows)];
  std::string_view raw;
  ASTER_TRY(take(&raw, shape.bytes));
  uint64_t word = 0;
  if (shape.bytes != 0) std::memcpy(&word, raw.data(), shape.bytes);  // both little-endian
  out->word = shape.is_signed ? static_cast<int32_t>(word) : static_cast<int64_t>(word);
  return shape.counts ? take(&out->data, word) : kOk;
}

// ---- Values and the stack ----

Status Pickle::make(Index* out, Value value) {
  if (values_.size() == kMostValues) return broken("too many values");
  *out = static_cast<Index>(values_.size());
  return values_.push(value);
}

Status Pickle::make_list(Index* out, Kind kind, std::span<const Index> items) {
  Vec<Index> list(memory_);
  ASTER_TRY(extend(list, items));
  ASTER_TRY(make(out, {kind, DType::kNone, 0, static_cast<int64_t>(lists_.size()), nullptr}));
  return lists_.push(std::move(list));
}

// Copies of copies would take memory out of proportion to the file.
Status Pickle::extend(Vec<Index>& list, std::span<const Index> items) {
  items_made_ += items.size();
  if (items_made_ > kMostValues) return broken("too many items");
  return list.append(items.data(), items.size());
}

Status Pickle::push(Value value) {
  Index index;
  ASTER_TRY(make(&index, value));
  return stack_.push(index);
}

Status Pickle::push_list(Kind kind, std::span<const Index> items) {
  Index index;
  ASTER_TRY(make_list(&index, kind, items));
  return stack_.push(index);
}

Status Pickle::top_value(Index* out) {
  if (stack_.size() <= (marks_.empty() ? 0 : marks_.back())) return broken("the stack is empty");
  *out = stack_.back();
  return kOk;
}

Status Pickle::pop_value(Index* out) {
  ASTER_TRY(top_value(out));
  stack_.pop();
  return kOk;
}

Status Pickle::to_mark(Vec<Index>* out) {
  if (marks_.empty()) return broken("no mark");
  const size_t from = marks_.back();
  ASTER_TRY(out->append(stack_.data() + from, stack_.size() - from));
  stack_.truncate(from);
  marks_.pop();
  return kOk;
}

Status Pickle::to_integer(int64_t* out, Index index) const {
  const Value& value = values_[index];
  if (value.kind != kInt && value.kind != kBool) return broken("an integer is needed");
  *out = value.word;
  return kOk;
}

Status Pickle::add_integers(Index* out, const uint8_t* words, size_t count) {
  Vec<Index> items(memory_);
  for (size_t i = 0; i < count; ++i) {
    Index item;
    ASTER_TRY(make(&item, {kInt, DType::kNone, 0, little<int64_t>(words + 8 * i), nullptr}));
    ASTER_TRY(items.push(item));
  }
  return make_list(out, kTuple, {items.data(), items.size()});
}

Status Pickle::add_tensor(int64_t name, const Tensor& tensor) {
  Index value;
  ASTER_TRY(
      make(&value, {kTensor, DType::kNone, 0, static_cast<int64_t>(tensors_.size()), nullptr}));
  ASTER_TRY(tensors_.push(tensor));
  return named_.set(name, value);
}

// ---- Actions: the machine ----

Status Pickle::protocol(const Operand& operand, int) {
  if (operand.word <= kNewestProtocol) return kOk;
  return ASTER_FAIL(kUNSUPPORTED, "pickle protocol %d", static_cast<int>(operand.word));
}

Status Pickle::nothing(const Operand&, int) { return kOk; }

Status Pickle::stop(const Operand&, int) {
  done_ = true;
  return kOk;
}

Status Pickle::mark(const Operand&, int) { return marks_.push(stack_.size()); }

Status Pickle::pop(const Operand&, int) {
  Index index;
  if (!marks_.empty() && marks_.back() == stack_.size()) {
    marks_.pop();
    return kOk;
  }
  return pop_value(&index);
}

Status Pickle::pop_mark(const Operand&, int) {
  if (marks_.empty()) return broken("no mark");
  stack_.truncate(marks_.back());
  marks_.pop();
  return kOk;
}

Status Pickle::duplicate(const Operand&, int) {
  Index index;
  ASTER_TRY(top_value(&index));
  return stack_.push(index);
}

Status Pickle::put(const Operand& operand, int) {
  Index index;
  ASTER_TRY(top_value(&index));
  return memo_.set(static_cast<uint64_t>(operand.word), index);
}

Status Pickle::memoize(const Operand&, int) {
  return put({static_cast<int64_t>(memo_.size()), {}, {}}, 0);
}

Status Pickle::get(const Operand& operand, int) {
  const Index* index = memo_.find(static_cast<uint64_t>(operand.word));
  if (index == nullptr) return broken("nothing was put where it gets from");
  const Index found = *index;
  return stack_.push(found);
}

namespace {

bool parse(int64_t* out, std::string_view text) {
  const auto result = std::from_chars(text.data(), text.data() + text.size(), *out);
  return result.ec == std::errc() && result.ptr == text.data() + text.size() && !text.empty();
}

}  // namespace

Status Pickle::put_line(const Operand& operand, int) {
  int64_t number;
  if (!parse(&number, operand.data) || number < 0) return broken("a number is needed");
  return put({number, {}, {}}, 0);
}

Status Pickle::get_line(const Operand& operand, int) {
  int64_t number;
  if (!parse(&number, operand.data) || number < 0) return broken("a number is needed");
  return get({number, {}, {}}, 0);
}

// ---- Actions: values ----

Status Pickle::none(const Operand&, int) { return push({kNone, DType::kNone, 0, 0, nullptr}); }

Status Pickle::boolean(const Operand&, int argument) {
  return push({kBool, DType::kNone, 0, argument, nullptr});
}

Status Pickle::integer(const Operand& operand, int) {
  return push({kInt, DType::kNone, 0, operand.word, nullptr});
}

Status Pickle::int_line(const Operand& operand, int bools) {
  std::string_view text = operand.data;
  if (bools != 0 && (text == "00" || text == "01")) return boolean(operand, text == "01");
  if (text.ends_with('L')) text.remove_suffix(1);
  int64_t number;
  if (!parse(&number, text)) return broken("an integer is needed");
  return push({kInt, DType::kNone, 0, number, nullptr});
}

Status Pickle::bytes_int(const Operand& operand, int) {
  const std::string_view data = operand.data;
  if (data.size() > 8) {
    if (data.size() > UINT32_MAX) return broken("an integer too long");
    return push({kBig, DType::kNone, static_cast<uint32_t>(data.size()), 0, data.data()});
  }
  int64_t number = !data.empty() && (data.back() & 0x80) != 0 ? -1 : 0;
  if (!data.empty()) std::memcpy(&number, data.data(), data.size());
  return push({kInt, DType::kNone, 0, number, nullptr});
}

Status Pickle::float_line(const Operand& operand, int) {
  double number = 0;
  if (!parse_double(&number, operand.data)) return broken("a number is needed");
  return push({kFloat, DType::kNone, 0, std::bit_cast<int64_t>(number), nullptr});
}

Status Pickle::number(const Operand& operand, int) {  // big-endian
  const uint64_t bits = __builtin_bswap64(static_cast<uint64_t>(operand.word));
  return push({kFloat, DType::kNone, 0, static_cast<int64_t>(bits), nullptr});
}

Status Pickle::text(const Operand& operand, int) {
  if (operand.data.size() > UINT32_MAX) return broken("a text too long");
  return push(
      {kText, DType::kNone, static_cast<uint32_t>(operand.data.size()), 0, operand.data.data()});
}

Status Pickle::plain_line(const Operand& operand, int quotes) {
  std::string_view data = operand.data;
  if (quotes != 0) {
    if (data.size() < 2 || data.front() != data.back()) return broken("a text without quotes");
    data = text_slice(data, 1, data.size() - 2);
  }
  if (data.find('\\') != std::string_view::npos) {
    return ASTER_FAIL(kUNSUPPORTED, "a text with escapes in a pickle of protocol 0");
  }
  return text({0, data, {}}, 0);
}

Status Pickle::bytes(const Operand& operand, int) {
  if (operand.data.size() > UINT32_MAX) return broken("bytes too long");
  return push(
      {kBytes, DType::kNone, static_cast<uint32_t>(operand.data.size()), 0, operand.data.data()});
}

Status Pickle::empty(const Operand&, int kind) { return push_list(static_cast<Kind>(kind), {}); }

Status Pickle::from_mark(const Operand&, int kind) {
  Vec<Index> items(memory_);
  ASTER_TRY(to_mark(&items));
  if (kind == kDict && items.size() % 2 != 0) return broken("a key without a value");
  return push_list(static_cast<Kind>(kind), {items.data(), items.size()});
}

Status Pickle::tuple(const Operand&, int count) {
  std::array<Index, 3> items;
  for (int i = count - 1; i >= 0; --i) ASTER_TRY(pop_value(&items[static_cast<size_t>(i)]));
  return push_list(kTuple, {items.data(), static_cast<size_t>(count)});
}

// ---- Actions: containers ----

Status Pickle::append(const Operand&, int one) {
  Vec<Index> items(memory_);
  Index index, target;
  if (one != 0) {
    ASTER_TRY(pop_value(&index));
    ASTER_TRY(items.push(index));
  } else {
    ASTER_TRY(to_mark(&items));
  }
  ASTER_TRY(top_value(&target));
  ASTER_TRY(become(target, kList));
  if (values_[target].kind != kList) return broken("a list is needed");
  return extend(list_of(target), {items.data(), items.size()});
}

Status Pickle::add_items(const Operand&, int) {
  Vec<Index> items(memory_);
  Index target;
  ASTER_TRY(to_mark(&items));
  ASTER_TRY(top_value(&target));
  ASTER_TRY(become(target, kSet));
  if (values_[target].kind != kSet) return broken("a set is needed");
  return extend(list_of(target), {items.data(), items.size()});
}

Status Pickle::set_item(const Operand&, int one) {
  Vec<Index> items(memory_);
  Index target;
  if (one != 0) {
    Index key, value;
    ASTER_TRY(pop_value(&value));
    ASTER_TRY(pop_value(&key));
    ASTER_TRY(items.push(key));
    ASTER_TRY(items.push(value));
  } else {
    ASTER_TRY(to_mark(&items));
  }
  ASTER_TRY(top_value(&target));
  ASTER_TRY(become(target, kDict));
  if (values_[target].kind != kDict || items.size() % 2 != 0) return broken("a dict is needed");
  return extend(list_of(target), {items.data(), items.size()});
}

}  // namespace aster::nn
