// Statements of one kernel: each value of the graph becomes a named constant in the outermost block
// where all that it depends on is known. Values that are the same for all lanes stay scalars.
#pragma once

#include "base/text.h"
#include "codegen/codegen.h"
#include "codegen/kernel.h"
#include "codegen/prelude.h"

namespace aster::codegen {

// A C variable t<id>.
struct Value {
  uint32_t id = 0;
  DType dtype = DType::kNone;  // of the register: never a narrow float or weak
  bool truth = false;          // a condition: a mask of dtype's width on lanes, 0 or 1 as a scalar
  uint8_t lanes = 1;
  int16_t depth = 0;  // block that holds it
};

// An open range: variable i<range>, plus copy * (lanes if vectorised).
struct RangeState {
  bool open = false;
  int depth = 0;          // block in which the variable is known
  int lanes = 1;          // more than 1: vectorised
  int copies = 1;         // of the tile
  int copy = 0;           // that is being emitted
  bool unrolled = false;  // has no variable: the copies are its whole length
  bool rolled = false;    // a loop of its own takes one copy after the other
  int64_t unit() const { return lanes; }
};

class Emitter {
 public:
  Emitter(const Kernel& kernel, const Target& target, Memory& memory);

  // Blocks: 0 is the function's own. Text of an open block goes in front of the blocks opened
  // inside it later.
  Status open_block();
  Status close_block(std::string_view tail = "}\n");
  int depth() const { return static_cast<int>(blocks_.size()) - 1; }
  Text& at(int depth) { return blocks_[static_cast<size_t>(depth)].text; }
  Text& here() { return at(depth()); }
  Text& head() { return blocks_.back().head; }

  RangeState& range(int id) { return ranges_[id]; }
  // The range whose lanes vectors hold, -1 for none.
  void set_vector(int range, int lanes) {
    vector_ = range;
    lanes_ = lanes;
  }
  int vector() const { return vector_; }
  int lanes() const { return vector_ < 0 ? 1 : lanes_; }

  // Emits a node whose sources were emitted; nothing if its value is known here.
  Status emit(Node node);
  // The value of an emitted node under the current copies.
  Value value(Node node) const;
  bool known(Node node, Value* out) const;
  Status remember(Node node, Value value);
  // Copies of a rolled range are remembered from here on downwards; tiles have at most half as
  // many.
  static constexpr int kRolled = 63;

  // Tiles that a node depends on, at their current copies.
  uint64_t copy_key(RangeSet set) const;
  int transposes(Node node) const;
  bool varies(Node node) const { return vector_ >= 0 && has(kernel_.ranges(node), vector_); }

  // Conversions of registers.
  Status spread(Value* out, Value v,
                DType as = DType::kNone);  // to all lanes; as: dtype, or width of a condition
  Status mask_as(Value* out, Value v, DType dtype);  // a condition as wide as dtype
  Status fresh(Value* out, DType dtype, bool truth, int lanes, int depth);
  // "const T tN = ", at the value's depth; the caller writes the rest and ";\n".
  Text& define(Value v, bool constant = true);
  void write_type(Text& out, DType dtype, int lanes) { write_type_name(out, dtype, lanes); }
  void write_call(Text& out, MathFn fn, DType dtype, int lanes);

  // Results that do not fit in the cache go past it where stream is set and their addresses allow
  // it.
  Status store(Node node, bool stream);
  bool streams() const { return streams_; }
  // Two values of one register type combined by a fold.
  Status write_combine(Text& out, Op op, DType dtype, bool truth, int lanes, std::string_view a,
                       std::string_view b);
  void write_identity(Text& out, Op op, DType dtype, bool truth, int lanes);
  Status round_to(Value* out, Value v, DType dtype);  // to a narrow float's values

  Status declare_params();

 private:
  struct Block {
    explicit Block(Memory& memory) : head(memory), text(memory) {}
    Text head, text;
    uint64_t serial = 0;
  };
  // Values derived from a node, or from a value.
  enum class Kind : uint32_t {
    kOwn,
    kIndex,
    kBase,
    kRaw,
    kGateUniform,
    kGateMask,
    kTransposed,
    kSpread,
    kMask,
    kBits,
    kFirstHalf,
    kSecondHalf
  };
  struct Key {
    uint64_t id, copies;
    Kind kind;
    uint32_t detail = 0;
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    uint64_t operator()(const Key& k) const {
      return hash_mix(hash_mix(k.id, k.copies), static_cast<uint64_t>(k.kind) << 32 | k.detail);
    }
  };
  struct Entry {
    Value value;
    uint64_t serial;
  };
  // What keeps a load from reading; ids are 0 where nothing does.
  struct Gate {
    Value uniform;  // for all lanes
    Value mask;     // lane by lane
  };

  // What a load of a narrow float found in memory.
  Key raw_key(Node node) const { return {node->id, copy_key(kernel_.ranges(node)), Kind::kRaw}; }
  bool recall(const Key& key, Value* out) const;
  Status keep(const Key& key, Value value);

  Status index_value(Value* out, Node index, DType wide);
  int form_depth(const Form& form, RangeSet skip) const;
  Status write_form(Text& out, const Form& form, int from_depth, int to_depth, bool constant,
                    int lane);
  Status base_of(Value* out, Node access, int* inner);
  Status write_address(Text& out, Node access, Value base, int inner, int lane);
  Status load(Node node, bool raw);
  Status write_gather(Text& out, Node node, Value base, int inner, DType storage,
                      const Value* gate);
  bool loads_masked(DType storage, int n) const;
  void write_builtin_type(Text& out, DType storage, int n);
  Status mask_bits(Value* out, Value mask);
  Status half_mask(Value* out, Value mask, bool second);
  void write_masked_load(Text& out, DType storage, int n, std::string_view address, Value mask);
  void write_allowed_load(Text& out, DType storage, int n, std::string_view address, Value mask);
  void write_whole(Text& out, DType storage, int n, std::string_view address);
  Status write_shuffled(Text& out, Node node, Value base, int inner, Value loaded,
                        const Value* halves);
  Status split_gate(Gate* out, Node gate);
  Status transposed_load(Node node, int across);
  void write_indexed(Text& out, DType storage, int n, int slot, Value index);
  Status indexed_load(Value* out, Node node, const Gate& gate, DType storage);
  Status load_stored(Value* out, Node node);
  Status alu(Node node);
  Status operand(Value* out, Node source, Node user);
  Status cast(Node node);
  Status bitcast(Node node);
  Status convert(Value* out, Value v, DType to, int depth);
  Status constant(Node node);
  Status write_alu(Text& out, Node node, const Value* v, DType dtype, int lanes);
  DType register_of(Node node) const;

  const Kernel& kernel_;
  const Target& target_;
  Memory& memory_;
  Vec<Block> blocks_;
  Map<Key, Entry, KeyHash> memo_;
  RangeState ranges_[kMaxRanges];
  int vector_ = -1;
  int lanes_ = 1;
  bool streams_ = false;
  uint32_t next_id_ = 0;
  uint64_t next_serial_ = 1;
};

// Storage of a dtype in memory, as the prelude names types.
DType storage_of(DType dtype);
// The signed integer of a register's width.
DType mask_of(DType dtype);

Text& operator<<(Text& out, const Value& v);

}  // namespace aster::codegen
