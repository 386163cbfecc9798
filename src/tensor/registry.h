// The registry of implementations (aster_ml/registry.h): which there are in a context, by which
// policy one is taken, and what was measured.
#pragma once

#include "aster_ml/registry.h"
#include "base/text.h"
#include "tensor/kernel.h"
#include "uop/composite.h"

namespace aster::tensor::registry {

using uop::Composite;

struct Registry;

// A call of a composite, as callers' functions see it.
struct Call {
  Call(engine::Engine& engine, Composite composite, Words attributes, Nodes operands, Node usual);
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  // What the pointers of `given` point to is its own from here on; for what outlives the call.
  Status keep(Memory& memory);

  static constexpr size_t kMostOperands = 8;
  Composite composite;
  Words attributes;
  Nodes operands;
  Node usual;
  int32_t device = 0;
  aster_ml_op_operand described[kMostOperands];
  aster_ml_op_call given;
};

// Why a form does not take a call: text; empty where it does.
struct Refusal {
  char text[96] = "";
  bool taken() const { return text[0] == '\0'; }
};

// What a gradient of a form is asked for: that of call's result y on operands, from dy, where
// needed says so.
struct Backward {
  engine::Engine& engine;
  const Call& call;
  Nodes operands;
  Node y, dy;
  std::span<const bool> needed;
  std::span<Node> dx;
};

// An implementation of the library. The first of an operation, or the only one, is the usual node:
// it has no row.
struct Form {
  Composite composite;
  const char *name, *meaning;
  void (*refuse)(Refusal* why, Context& context, const Call& call);
  // A node of the call on operands: not always those of the call. Nil absorbs.
  Node (*build)(engine::Engine& engine, const Call& call, Nodes operands);
  bool usual_gradient;  // that of the usual node, not of what build gives
  // Null: that. What is needed of a mask is the usual node's in any case.
  Status (*gradient)(const Backward& of);
  // Whether it is what "default" takes of a call on the host. Null: never.
  bool (*preferred)(Words attributes, Nodes operands, Node usual);
  // The same of "fast", before those.
  bool (*fast)(Nodes operands, Node usual) = nullptr;
};
std::span<const Form> forms();
// Steps of forms: elements first, first + 1, .. of an axis that is counted from the end, x itself
// where it has one; what a refusal says.
Node part(Graph& g, Node x, size_t from_end, Word first, Word count);
void say(Refusal* why, const char* text);
// The name and meaning of the usual node of an operation.
const char* usual_name(Composite composite);

// One implementation of an operation in a context. Counted: the registry, and what was built.
struct Implementation {
  Context* context = nullptr;
  Composite composite = Composite::kCount;
  const Form* form = nullptr;  // null: the usual one, or the caller's
  bool usual = false;
  aster_ml_implementation given = {};  // the caller's
  KernelObject* kernel = nullptr;
  char name[32] = "";
  uint32_t references = 1;
  void retain() { ++references; }
  void release();
};

enum class PolicyKind : uint8_t { kInherit, kDefault, kFast, kForce, kBenchmark };
struct Policy {
  static constexpr uint32_t kCached = 64;
  PolicyKind kind = PolicyKind::kInherit;
  uint32_t cached = kCached;
  char name[32] = "";
};
struct Policies {
  Policy of[uop::kComposites];
  // Adds what JSON says. Errors: FORMAT, NOT_FOUND.
  Status read(const Registry& registry, const char* json);
};
void write_policy(Text& out, const Policy& policy);

// What was measured for one call.
struct Measured {
  explicit Measured(Memory& memory) : key(memory), names(memory), nanoseconds(memory) {}
  struct Name {
    char text[32];
  };
  Text key;
  Vec<Name> names;  // of what was measured
  Vec<double> nanoseconds;
  char fastest[32] = "";
  Composite composite = Composite::kCount;
  uint64_t used = 0;
};

struct Flow;

struct Registry : uop::Chooser {
  explicit Registry(engine::Engine& owner);
  ~Registry();
  Registry(const Registry&) = delete;
  Registry& operator=(const Registry&) = delete;

  Implementation* find(Composite composite, std::string_view name) const;
  // The policy for what the calling thread builds.
  Policy policy_of(Composite composite) const;
  // Whether anything is chosen: only then is it asked.
  void update();
  // ", " between the names of the implementations of an operation.
  void write_names(Text& out, Composite composite) const;

  engine::Engine& engine;
  Context& context;
  Vec<Implementation*> all;  // by operation, the usual one first
  Policies policies;
  struct OfThread {
    const void* thread;
    Policies* policies;
  };
  Vec<OfThread> pushed;
  Vec<Measured*> measured;
  uint64_t clock = 0;
  bool forgets_disk = false;
  bool asked = false;                    // whether it is in the list of choosers
  uint32_t busy[uop::kComposites] = {};  // implementations of it that are being built
  Vec<Flow*> flows;
};

// That of a context, made at the first call. Errors: those of ASTER_ML_REGISTRY; MEMORY.
Status registry_of(Registry** out, engine::Engine& engine);
// The same where the environment says something, once a context.
Status look_at_environment(engine::Engine& engine);
// What choose() of uop/composite.h answers, where forms may be preferred by default.
Node choose_preferred(engine::Engine& engine, Composite composite, Words attributes,
                      Nodes arguments, Node usual);
// What the calling thread is known by.
const void* this_thread();

// Whether an implementation takes a call.
void ask(Refusal* why, const Implementation& implementation, const Call& call);
// What it makes of a call on operands; nil: the failure in the error record. The registry counts as
// busy with the operation.
Node build_with(Registry& registry, Implementation& implementation, const Call& call);
// The fastest for a call, measured or remembered. Errors: UNSUPPORTED (none takes it), those of
// realising.
Status fastest(Implementation** out, Registry& registry, const Call& call, uint32_t cached);

}  // namespace aster::tensor::registry
