// What a graph without calls has to compute: its nodes in order, which of them are one value, and
// which are kept in memory while others read them.
#pragma once

#include "uop/uop.h"

namespace aster::runtime::reference {

constexpr uint32_t kNowhere = UINT32_MAX;

// One node of the order.
struct Value {
  uop::Node node = nullptr;
  uint32_t first_source = 0;  // into Values::sources
  uint32_t same = kNowhere;   // the node whose value this one has (itself, or below)
  uint32_t base = kNowhere;   // the leaf whose storage it views
  uint32_t last_reader = 0;   // the last kept value that is computed from it; kNowhere: the end
  uint16_t weight = 1;        // strips that its evaluation holds at once, about
  bool needed = false;        // as a value, or as storage
  bool kept = false;
  bool owned = false;     // data is released by Values
  void* bound = nullptr;  // memory of a leaf
  void* data = nullptr;   // memory of a kept value
};

class Values {
 public:
  explicit Values(Memory& memory)
      : memory_(&memory), values_(memory), sources_(memory), positions_(memory) {}
  ~Values();
  Values(const Values&) = delete;
  Values& operator=(const Values&) = delete;

  // Orders what roots reach and decides what is kept: roots, reductions, what Contiguous and
  // assignments ask for, After on storage, and values read at different indices.
  // Errors: ARGUMENT, UNSUPPORTED (an operation that is not of tensor graphs), MEMORY.
  Status analyse(uop::Nodes roots);

  size_t size() const { return values_.size(); }
  Value& operator[](size_t i) { return values_[i]; }
  const Value& operator[](size_t i) const { return values_[i]; }
  // Position of a node of the order, or kNowhere.
  uint32_t find(uop::Node node) const { return positions_.get(node, kNowhere); }
  // Position of a value's source, as it is in the graph or the one that has its value.
  uint32_t source(size_t i, size_t k) const { return sources_[values_[i].first_source + k]; }
  uint32_t source_value(size_t i, size_t k) const { return values_[source(i, k)].same; }

  // Memory for a kept value.
  Status allocate(Value& value);
  void release(Value& value);

 private:
  struct Reading;
  Status order(uop::Nodes roots);
  void find_same(uint32_t i);
  void decide(Vec<Reading>& readings);
  void weigh(uint32_t i);
  Memory* memory_;
  Vec<Value> values_;
  Vec<uint32_t> sources_;
  Map<uop::Node, uint32_t> positions_;
};

// Bytes of a node's value in memory.
size_t value_bytes(uop::Node node);
// Whether node reads one source at other indices (Cat reads several).
bool moves_one(uop::Op op);

}  // namespace aster::runtime::reference
