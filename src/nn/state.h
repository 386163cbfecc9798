// States: parameters by name.
#pragma once

#include <string_view>

#include "aster_ml/nn.h"
#include "base/hash_map.h"
#include "base/text.h"
#include "nn/parameter.h"

namespace aster::nn {

struct State : HandleObject {
  explicit State(Heap& heap) : entries(heap), index(heap), metadata(heap) {}

  struct Entry {
    Text name;  // zero-terminated
    Shared parameter;
    uint32_t next;  // 1 + the entry before it with the same hash; 0: none
  };
  struct Note {
    Text key, text;  // zero-terminated
  };
  Vec<Entry> entries;
  Map<uint64_t, uint32_t> index;  // hash of the name -> 1 + the last entry with it
  Vec<Note> metadata;
  bool skips_unknown = false;  // while a torch file is read

  // Null if there is none.
  Entry* find(std::string_view name);
  const Entry* find(std::string_view name) const { return const_cast<State*>(this)->find(name); }
  // Adds what is new, or replaces. Errors: ARGUMENT (no name, not UTF-8).
  Status set(std::string_view name, const Shared& parameter);
  void truncate(size_t count);  // takes the entries added last out again
  const Note* note(std::string_view key) const;
  Status set_note(std::string_view key, const char* text, size_t size);
};

inline State* state_of(const aster_ml_state* state) {
  return state == nullptr ? nullptr : object_of<State>(state->impl);
}

// A new empty state, out of any scope. On the context's thread.
Status create_state(State** out, Context& context);
// All entries, computed together.
Status realize_state(const State& state);

}  // namespace aster::nn
