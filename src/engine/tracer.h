// Traces of a context (aster_ml/trace.h): its launches come to it as to any function of
// aster_ml_engine_trace, and what wants more finds it there.
#pragma once

#include "aster_ml/trace.h"
#include "engine/engine.h"

namespace aster::engine {

class Tracer {
 public:
  // Begins as ASTER_ML_TRACE says, if it does. Errors: FORMAT, IO.
  static Status from_environment(Engine& engine);
  // That of a trace; null: there is none.
  static Tracer* of(const Trace& trace) {
    return trace.function == told ? static_cast<Tracer*>(trace.self) : nullptr;
  }
  // Ends it, and begins another one; null: none. Errors: ARGUMENT, IO.
  static Status configure(Engine& engine, const aster_ml_trace_config* config);
  // Ends it as its engine does.
  static void end(Engine& engine);

  // Who is told besides.
  Trace next;

  // A schedule that is about to run; fresh: it was made now. Errors: IO.
  Status scheduled(Engine& engine, const Executable& exe, uop::Nodes roots, bool fresh);
  // Around each launch of a CPU's kernels.
  bool looks() const { return debug_ != ASTER_ML_DEBUG_NONE; }
  void before(const Executable& exe, size_t launch, void* const* pointers);
  void after(const Executable& exe, size_t launch, void* const* pointers);

 private:
  friend ::aster::Memory;
  explicit Tracer(Context& context);
  ~Tracer();
  static void told(void* self, const aster_ml_launch* launch);
  struct Witness;

  Status begin(const aster_ml_trace_config& config);
  Status write_profile();
  Status dump(Engine& engine, const Executable& exe, uop::Nodes roots);
  Status write_object(Text& out, const Launch& launch);
  void look_at_values(const Executable& exe, size_t launch, size_t operand, void* memory);
  void compare(const Executable& exe, size_t launch, void* const* pointers);

  struct Record {
    char name[64], scope[64];
    const char* cut;
    char algorithm[24];
    int32_t is_exact;
    uint64_t start, ns, operations, bytes, held;
    int32_t device, replayed;
  };
  Context& context_;
  Text directory_, profile_;
  int32_t debug_ = ASTER_ML_DEBUG_NONE;
  uint64_t began_ = 0, dumped_ = 0;
  Vec<Record> records_;
  Vec<uint64_t> hashes_;  // of the operands of a launch before it
  Vec<bool> seen_;        // slots of the run that goes on
  Vec<Witness*> witnesses_;
  Vec<Vec<char>*> copies_;  // of the operands, computed by the reference runtime
};

// The names of the scopes that are open in this thread.
const char* trace_scope();

}  // namespace aster::engine
