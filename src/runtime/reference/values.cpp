#include "runtime/reference/values.h"

#include <algorithm>

#include "runtime/reference/indexed.h"
#include "runtime/reference/strip.h"

namespace aster::runtime::reference {
namespace {

using uop::Node;
using uop::Nodes;
using uop::Op;

// A value read at different indices is computed again for each, instead of kept, if it is larger
// than this and the copies stay few. Movement is cheap, so only their number counts.
constexpr size_t kKeepBytes = size_t{256} << 20;
constexpr uint32_t kMostCopies = 8;
constexpr uint32_t kMostMoves = 64;

// Frames: values of one frame are read at the same row-major positions.
constexpr uint32_t kNoFrame = 0;
constexpr uint32_t kManyFrames = UINT32_MAX;

bool is_leaf(Op op) {
  return op == Op::kConst || op == Op::kBuffer || op == Op::kParam || op == Op::kIota;
}

bool is_storage(Op op) { return op == Op::kBuffer || op == Op::kParam; }

}  // namespace

// How a value is read, gathered from its readers before it is decided on.
struct Values::Reading {
  uint32_t frame = kNoFrame;
  uint32_t copies = 0;
};

size_t value_bytes(Node node) {
  return static_cast<size_t>(node->count()) * element_bytes(node->dtype);
}

bool moves_one(Op op) { return uop::is_movement(op) && op != Op::kCat && op != Op::kReshape; }

Values::~Values() {
  for (Value& value : values_) release(value);
}

Status Values::allocate(Value& value) {
  const size_t bytes = value_bytes(value.node);
  value.data = memory_->allocate(bytes, 64);
  if (value.data == nullptr) return out_of_memory(bytes);
  value.owned = true;
  return kOk;
}

void Values::release(Value& value) {
  if (!value.owned) return;
  memory_->release(value.data, value_bytes(value.node), 64);
  value.data = nullptr;
  value.owned = false;
}

Status Values::order(Nodes roots) {
  Vec<Node> nodes(*memory_);
  ASTER_TRY(uop::toposort(&nodes, roots));
  ASTER_TRY(values_.reserve(nodes.size()));
  for (Node node : nodes) {
    const bool composed = node->op == Op::kCall || node->op == Op::kTuple ||
                          node->op == Op::kItem || node->op == Op::kSink;
    if (!uop::info(node->op).tensor || composed || node->dtype == uop::DType::kNone) {
      return ASTER_FAIL(kUNSUPPORTED, "%s is no operation on tensors", uop::info(node->op).name);
    }
    Value value;
    value.node = node;
    value.first_source = static_cast<uint32_t>(sources_.size());
    for (Node source : node->src()) ASTER_TRY(sources_.push(find(source)));
    ASTER_TRY(positions_.set(node, static_cast<uint32_t>(values_.size())));
    ASTER_TRY(values_.push(value));
  }
  return kOk;
}

// Which earlier node has this value, and which leaf's storage it views.
void Values::find_same(uint32_t i) {
  Value& value = values_[i];
  const Op op = value.node->op;
  value.same = i;
  if (is_storage(op)) value.base = i;
  const bool views = moves_one(op) || op == Op::kReshape || op == Op::kBitcast ||
                     op == Op::kDetach || op == Op::kAssign || op == Op::kAfter;
  if (views) value.base = values_[source(i, 0)].base;
  if (op == Op::kDetach || (op == Op::kAfter && value.base == kNowhere)) {
    value.same = source_value(i, 0);
  } else if (op == Op::kAssign) {
    value.same = source_value(i, 1);
  }
}

// From readers to what they read.
void Values::decide(Vec<Reading>& readings) {
  uint32_t frames = kNoFrame;
  for (uint32_t i = static_cast<uint32_t>(values_.size()); i-- > 0;) {
    Value& value = values_[i];
    if (value.node->op == Op::kAssign) {  // happens whether or not its value is read
      Value& written = values_[source_value(i, 1)];
      written.needed = written.kept = true;
      written.last_reader = kNowhere;
      if (value.base != kNowhere) values_[value.base].needed = true;
    }
    if (!value.needed || value.same != i) continue;
    const Op op = value.node->op;
    Reading reading = readings[i];
    value.kept |=
        op == Op::kReduce || op == Op::kContiguous || op == Op::kAfter || is_indexed(value.node);
    if (!value.kept && !is_leaf(op) && reading.frame == kManyFrames) {
      value.kept = moves_one(op) || op == Op::kReshape
                       ? reading.copies > kMostMoves
                       : reading.copies > kMostCopies || value_bytes(value.node) <= kKeepBytes;
    }
    if (value.kept) reading = Reading{++frames, 1};
    if (op == Op::kAfter) {  // read from the storage as the assignments leave it
      values_[value.base].needed = true;
      continue;
    }
    const bool moves = moves_one(op) || op == Op::kReduce || op == Op::kCat;
    for (size_t k = 0; k < value.node->nsrc; ++k) {
      const uint32_t at = source_value(i, k);
      Value& read = values_[at];
      Reading& sum = readings[at];
      const uint32_t frame = reading.frame == kManyFrames ? kManyFrames
                             : moves                      ? ++frames
                                                          : reading.frame;
      read.needed = true;
      read.kept |= is_indexed(value.node) && !is_storage(read.node->op);
      read.last_reader = std::max(read.last_reader, value.kept ? i : value.last_reader);
      if (sum.frame == kNoFrame) {
        sum = Reading{frame, reading.copies};
      } else if (sum.frame != frame || frame == kManyFrames) {
        sum.frame = kManyFrames;
        sum.copies = std::min(sum.copies + reading.copies, uint32_t{1} << 20);
      }
    }
  }
}

// Strips held at once when the heavier operands go first.
void Values::weigh(uint32_t i) {
  Value& value = values_[i];
  if (value.same != i || value.kept || is_leaf(value.node->op)) return;
  uint32_t weight = 1;
  for (size_t k = 0; k < value.node->nsrc; ++k) {
    const uint32_t other = values_[source_value(i, k)].weight;
    weight = other == weight && k > 0 ? weight + 1 : std::max(weight, other);
  }
  value.weight = static_cast<uint16_t>(std::min(weight, uint32_t{UINT16_MAX}));
}

Status Values::analyse(Nodes roots) {
  ASTER_TRY(order(roots));
  Vec<Reading> readings(*memory_);
  ASTER_TRY(readings.resize(values_.size()));
  for (uint32_t i = 0; i < values_.size(); ++i) find_same(i);
  for (Node root : roots) {
    Value& value = values_[values_[find(root)].same];
    value.needed = value.kept = true;
    value.last_reader = kNowhere;
  }
  decide(readings);
  for (uint32_t i = 0; i < values_.size(); ++i) weigh(i);
  return kOk;
}

}  // namespace aster::runtime::reference
