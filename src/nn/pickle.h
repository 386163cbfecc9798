// The part of Python's pickle machine that states are made of: plain containers, and the tensors
// and storages of torch. Nothing is imported or called: what a pickle may name stands in torch.def,
// and what does not is refused by name, or skipped.
#pragma once

#include <span>
#include <string_view>

#include "base/hash_map.h"
#include "base/text.h"
#include "nn/parameter.h"

namespace aster::nn {

class Pickle {
 public:
  enum Kind : uint8_t {
    kNone,
    kBool,
    kInt,    // word
    kBig,    // data: an integer beyond 64 bits, its two's complement from the lowest byte on
    kFloat,  // bits of a double in word
    kText,   // data
    kBytes,  // data
    kLatin,  // bytes, given as the text whose Latin-1 they are
    kTuple,  // items of list word
    kList,
    kDict,  // items: key, value, key, value, ...
    kSet,
    kGlobal,   // meaning in word, dtype in extra
    kStorage,  // storages[word]
    kTensor,   // tensors[word]
    kHolder,   // a parameter that is not told its tensor yet
    kUnknown,  // data: a name that is skipped, and what calling it makes
  };
  // What a name of torch.def stands for.
  enum Meaning : uint8_t {
    kStorageType,
    kDTypeName,
    kUntypedStorage,
    kMakeDict,
    kMakeTuple,
    kMakeDevice,
    kMakeSet,
    kMakeBytes,
    kEncode,
    kRebuild,
    kRebuildTyped,
    kRebuildByType,
    kFirst,
    kType,
    kParameter,
  };
  struct Value {
    Kind kind;
    DType extra;
    uint32_t size;  // of data
    int64_t word;
    const char* data;
    std::string_view text() const { return {data, size}; }
  };
  using Index = uint32_t;  // of a value
  struct Storage {
    DType dtype;  // kNone: untyped
    std::string_view key;
    int64_t count;  // elements; bytes where untyped
    int64_t begin;  // of a view of another storage
    // Where its bytes are; the reader of the file fills it in.
    size_t offset = 0, bytes = 0;
    bool found = false;
  };
  struct Tensor {
    Index storage;  // of storages
    DType dtype;
    int64_t offset;
    Index sizes, strides;  // tuples of integers
  };

  // memory outlives the machine. skips: names that mean nothing here stand for nothing, else they
  // are refused.
  Pickle(Memory& memory, std::span<const uint8_t> bytes, bool skips);

  // Runs one pickle from where the last one ended; its value is *out. The memo is new. Errors:
  // FORMAT, UNSUPPORTED (what it names), MEMORY.
  Status load(Index* out);
  size_t at() const { return at_; }
  void seek(size_t at) { at_ = at; }
  // Another end of what is read; texts read before stay.
  void limit(std::span<const uint8_t> bytes) { bytes_ = bytes; }

  const Value& operator[](Index index) const { return values_[index]; }
  std::span<const Index> items(const Value& of) const {
    const Vec<Index>& list = lists_[static_cast<size_t>(of.word)];
    return {list.data(), list.size()};
  }
  Vec<Storage>& storages() { return storages_; }
  const Vec<Tensor>& tensors() const { return tensors_; }
  const Vec<Text>& skipped() const { return skipped_; }  // names, each once
  // An integer. Errors: FORMAT.
  Status to_integer(int64_t* out, Index index) const;

  // What persistent identifiers that are numbers name: the tensors of the oldest format, by the
  // numbers that add_tensor took.
  Status add_tensor(int64_t name, const Tensor& tensor);
  Status add_integers(Index* out, const uint8_t* words, size_t count);  // a tuple of 64-bit ones

 private:
  struct Operand {
    int64_t word;
    std::string_view data;    // a line, or what was counted
    std::string_view second;  // line
  };
  enum class Follows : uint8_t {
    kNone,
    kU1,
    kU2,
    kU4,
    kI4,
    kU8,
    kCounted1,
    kCounted4,
    kCounted8,
    kLine,
    kTwoLines,
  };
  using Action = Status (Pickle::*)(const Operand& operand, int argument);
  struct Row {
    Follows follows;
    Action action;
    int argument;
  };
  static const Row* row_of(uint8_t opcode);

  Status broken(const char* what) const;
  Status operand(Operand* out, Follows follows);
  Status take(std::string_view* out, uint64_t count);
  Status line(std::string_view* out);

  // Values and the stack.
  Status make(Index* out, Value value);
  Status make_list(Index* out, Kind kind, std::span<const Index> items);
  Status extend(Vec<Index>& list, std::span<const Index> items);
  Status push(Value value);
  Status push_list(Kind kind, std::span<const Index> items);
  Status top_value(Index* out);
  Status pop_value(Index* out);
  Status to_mark(Vec<Index>* out);
  Vec<Index>& list_of(Index index) { return lists_[static_cast<size_t>(values_[index].word)]; }

#define PICKLE_ACTION(name) Status name(const Operand& operand, int argument);
  // clang-format off
  PICKLE_ACTION(protocol) PICKLE_ACTION(nothing) PICKLE_ACTION(stop) PICKLE_ACTION(mark)
  PICKLE_ACTION(pop) PICKLE_ACTION(pop_mark) PICKLE_ACTION(duplicate) PICKLE_ACTION(none)
  PICKLE_ACTION(boolean) PICKLE_ACTION(int_line) PICKLE_ACTION(integer) PICKLE_ACTION(bytes_int)
  PICKLE_ACTION(float_line) PICKLE_ACTION(number) PICKLE_ACTION(text) PICKLE_ACTION(plain_line)
  PICKLE_ACTION(bytes) PICKLE_ACTION(empty) PICKLE_ACTION(from_mark) PICKLE_ACTION(tuple)
  PICKLE_ACTION(append) PICKLE_ACTION(add_items) PICKLE_ACTION(set_item) PICKLE_ACTION(put_line)
  PICKLE_ACTION(put) PICKLE_ACTION(memoize) PICKLE_ACTION(get_line) PICKLE_ACTION(get)
  PICKLE_ACTION(global) PICKLE_ACTION(from_names) PICKLE_ACTION(reduce) PICKLE_ACTION(build)
  PICKLE_ACTION(persist_line) PICKLE_ACTION(persist)
  // clang-format on
#undef PICKLE_ACTION

      // What names mean.
      Status push_global(std::string_view module, std::string_view name);
  Status unknown(std::string_view module, std::string_view name, const char* why);
  Status become(Index target, Kind kind);  // an unknown that is filled as a container is one
  Status call(Index* out, const Value& global, std::span<const Index> arguments);
  Status call_container(Index* out, const Value& global, std::span<const Index> arguments);
  Status rebuild(Index* out, std::span<const Index> arguments, bool typed);
  Status rebuild_by_type(Index* out, std::span<const Index> arguments);
  Status storage_of(Index* out, std::span<const Index> identifier);
  Status check_integers(Index tuple) const;

  Memory& memory_;
  std::span<const uint8_t> bytes_;
  size_t at_ = 0;
  bool done_ = false;
  Vec<Value> values_;
  Vec<Vec<Index>> lists_;
  size_t items_made_ = 0;  // of all lists
  Vec<Index> stack_;
  Vec<size_t> marks_;
  Map<uint64_t, Index> memo_;
  Vec<Storage> storages_;
  Vec<Tensor> tensors_;
  Map<int64_t, Index> named_;
  bool skips_;
  Vec<Text> skipped_;
};

}  // namespace aster::nn
