#include "tensor/state.h"

namespace aster::tensor {
namespace {

struct Parts {
  void* states[static_cast<int>(Part::kCount)] = {};
  void (*destroys[static_cast<int>(Part::kCount)])(Context&, void*) = {};
};

Parts* parts(const Context& context) { return static_cast<Parts*>(context.state(Module::kTensor)); }

void destroy_parts(Context& context, void* state) {
  Parts* all = static_cast<Parts*>(state);
  for (int i = static_cast<int>(Part::kCount); i-- > 0;) {
    if (all->states[i] != nullptr) all->destroys[i](context, all->states[i]);
  }
  context.heap().destroy(all);
}

}  // namespace

void* part_of(const Context& context, Part part) {
  const Parts* all = parts(context);
  return all == nullptr ? nullptr : all->states[static_cast<int>(part)];
}

Status set_part(Context& context, Part part, void* state,
                void (*destroy)(Context& context, void* state)) {
  Parts* all = parts(context);
  if (all == nullptr) {
    all = context.heap().create<Parts>();
    if (all == nullptr) return out_of_memory(sizeof(Parts));
    context.set_state(Module::kTensor, all, destroy_parts);
  }
  all->states[static_cast<int>(part)] = state;
  all->destroys[static_cast<int>(part)] = destroy;
  return kOk;
}

}  // namespace aster::tensor
