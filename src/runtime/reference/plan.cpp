#include "runtime/reference/plan.h"

namespace aster::runtime::reference {
namespace {

using uop::Node;
using uop::Op;
using Kind = Step::Kind;

class Planner {
 public:
  Planner(Plan& plan, const Values& values)
      : plan_(plan), values_(values), stack_(plan.steps.memory()), made_(plan.steps.memory()) {}

  Status begin() {
    uint32_t root;
    return add(Step{Kind::kRoot}, &root);
  }
  Status value(uint32_t position);
  Status storage(uint32_t view, const void* memory);
  Status assign_slots();

 private:
  // A value at some positions whose steps are being made.
  struct Task {
    uint32_t value;
    uint32_t index;               // step of the positions
    uint32_t next = 0;            // sources done
    uint32_t inner = 0;           // step of the last source's positions, where they are others
    uint32_t partial = kNowhere;  // Cat: of the sources so far
  };
  static uint64_t key(uint32_t value, uint32_t index) { return (uint64_t{value} << 32) | index; }
  uint32_t made(uint32_t value, uint32_t index) const {
    return made_.get(key(value, index), kNowhere);
  }
  Status finish(const Task& task, uint32_t step) {
    stack_.pop();
    return made_.set(key(task.value, task.index), step);
  }

  Status add(const Step& step, uint32_t* out) {
    *out = static_cast<uint32_t>(plan_.steps.size());
    return plan_.steps.push(step);
  }
  Status move(Node node, size_t source, uint32_t index, uint32_t* out);
  Status blend(Node node, uint32_t x, uint32_t otherwise, uint32_t index, uint32_t* out);
  Status visit(bool root);
  Status leaf(const Task& task, bool root);
  Status same_place(const Task& task);
  Status elsewhere(const Task& task);
  Status cat(const Task& task);

  Plan& plan_;
  const Values& values_;
  Vec<Task> stack_;
  Map<uint64_t, uint32_t> made_;
};

Status Planner::move(Node node, size_t source, uint32_t index, uint32_t* out) {
  Movement movement;
  ASTER_TRY(prepare_movement(&movement, &plan_.rows, node, source));
  Step step{Kind::kIndex};
  step.index = index;
  step.movement = plan_.movements.size();
  ASTER_TRY(plan_.movements.push(movement));
  return add(step, out);
}

// otherwise: a step, or nowhere for the fill of a movement that leaves room.
Status Planner::blend(Node node, uint32_t x, uint32_t otherwise, uint32_t index, uint32_t* out) {
  if (otherwise == kNowhere) {
    Step fill{Kind::kConst};
    fill.dtype = node->dtype;
    fill.word = node->op == Op::kPad ? node->arg(node->narg - 1) : 0;
    ASTER_TRY(add(fill, &otherwise));
  }
  Step step{Kind::kBlend};
  step.dtype = node->dtype;
  step.sources[0] = x;
  step.sources[1] = otherwise;
  step.index = index;
  return add(step, out);
}

Status Planner::leaf(const Task& task, bool root) {
  const Value& value = values_[task.value];
  const Op op = value.node->op;
  Step step{Kind::kConst};
  step.dtype = value.node->dtype;
  if (value.node->count() == 0) {
    // Nothing of it is ever used; some value must stand there.
  } else if (value.data != nullptr && !root) {
    step.kind = Kind::kLoad;
    step.data = value.data;
    step.index = task.index;
  } else if (op == Op::kConst) {
    step.word = value.node->arg(0);
  } else if (op == Op::kIota) {
    step.kind = Kind::kIota;
    step.index = task.index;
  } else {
    step.kind = Kind::kLoad;
    step.data = value.bound;
    step.index = task.index;
  }
  uint32_t made_step;
  ASTER_TRY(add(step, &made_step));
  return finish(task, made_step);
}

// Operations whose sources are read where the result is: the heavier source first.
Status Planner::same_place(const Task& task) {
  const Value& value = values_[task.value];
  const Node node = value.node;
  uint32_t best = kNowhere, steps[3] = {};
  for (size_t k = 0; k < node->nsrc; ++k) {
    const uint32_t source = values_.source_value(task.value, k);
    steps[k] = made(source, task.index);
    if (steps[k] != kNowhere) continue;
    if (best == kNowhere || values_[source].weight > values_[best].weight) best = source;
  }
  if (best != kNowhere) return stack_.push(Task{best, task.index});
  if (node->op == Op::kReshape || node->op == Op::kContiguous) return finish(task, steps[0]);
  Step step{node->op == Op::kCast      ? Kind::kCast
            : node->op == Op::kBitcast ? Kind::kBitcast
                                       : Kind::kAlu};
  step.op = node->op;
  step.dtype = node->dtype;
  step.from = node->src(node->nsrc - 1)->dtype;
  for (size_t k = 0; k < node->nsrc; ++k) step.sources[k] = steps[k];
  uint32_t made_step;
  ASTER_TRY(add(step, &made_step));
  return finish(task, made_step);
}

Status Planner::elsewhere(const Task& task) {
  const Node node = values_[task.value].node;
  const uint32_t source = values_.source_value(task.value, 0);
  if (task.next == 0) {
    uint32_t inner;
    ASTER_TRY(move(node, 0, task.index, &inner));
    stack_.back().next = 1;
    stack_.back().inner = inner;
    return stack_.push(Task{source, inner});
  }
  uint32_t step = made(source, task.inner);
  if (node->op == Op::kPad || node->op == Op::kUnwindow) {
    ASTER_TRY(blend(node, step, kNowhere, task.inner, &step));
  }
  return finish(task, step);
}

Status Planner::cat(const Task& task) {
  const Node node = values_[task.value].node;
  Task now = task;
  if (now.next > 0) {
    const uint32_t part = made(values_.source_value(task.value, now.next - 1), now.inner);
    ASTER_TRY(
        blend(node, part, now.partial == kNowhere ? part : now.partial, now.inner, &now.partial));
  }
  while (now.next < node->nsrc && node->src(now.next)->count() == 0) ++now.next;
  if (now.next == node->nsrc) return finish(task, now.partial);
  ASTER_TRY(move(node, now.next, task.index, &now.inner));
  const uint32_t source = values_.source_value(task.value, now.next);
  ++now.next;
  stack_.back() = now;
  return stack_.push(Task{source, now.inner});
}

Status Planner::visit(bool root) {
  const Task task = stack_.back();
  const Value& value = values_[task.value];
  const Op op = value.node->op;
  if (task.next == 0 && made(task.value, task.index) != kNowhere) {
    stack_.pop();
    return kOk;
  }
  if (value.node->nsrc == 0 || value.node->count() == 0 || (value.kept && !root)) {
    return leaf(task, root);
  }
  if (moves_one(op)) return elsewhere(task);
  if (op == Op::kCat) return cat(task);
  return same_place(task);
}

Status Planner::value(uint32_t position) {
  const bool reduces = values_[position].node->op == Op::kReduce;
  const uint32_t first = reduces ? values_.source_value(position, 0) : position;
  ASTER_TRY(stack_.push(Task{first, 0}));
  while (!stack_.empty()) ASTER_TRY(visit(stack_.size() == 1 && !reduces));
  plan_.result = made(first, 0);
  return kOk;
}

Status Planner::storage(uint32_t view, const void* memory) {
  // Down to the base, remembering where each node stands.
  Vec<Task> path(plan_.steps.memory());
  uint32_t index = 0;
  uint32_t at = view;
  for (; at != values_[view].base; at = values_.source(at, 0)) {
    ASTER_TRY(path.push(Task{at, index}));
    const Node node = values_[at].node;
    if (moves_one(node->op)) ASTER_TRY(move(node, 0, index, &index));
    path.back().inner = index;
  }
  plan_.target = index;
  if (memory == nullptr) return kOk;
  Step load{Kind::kLoad};
  load.dtype = values_[at].node->dtype;
  load.data = memory;
  load.index = index;
  ASTER_TRY(add(load, &plan_.result));
  while (!path.empty()) {
    const Task task = path.back();
    path.pop();
    const Node node = values_[task.value].node;
    if (node->op == Op::kPad || node->op == Op::kUnwindow) {
      ASTER_TRY(blend(node, plan_.result, kNowhere, task.inner, &plan_.result));
    } else if (node->op == Op::kBitcast) {
      Step step{Kind::kBitcast};
      step.dtype = node->dtype;
      step.from = node->src(0)->dtype;
      step.sources[0] = plan_.result;
      ASTER_TRY(add(step, &plan_.result));
    }
  }
  return kOk;
}

bool makes_index(const Step& step) { return step.kind == Kind::kRoot || step.kind == Kind::kIndex; }

// One pass over the steps: a slot is free again once the last step that reads it is reached, which
// may then write its own result there.
Status Planner::assign_slots() {
  Memory& memory = plan_.steps.memory();
  Vec<Step>& steps = plan_.steps;
  const uint32_t count = static_cast<uint32_t>(steps.size());
  for (uint32_t i = 0; i < count; ++i) {
    steps[i].last = i;
    for (uint32_t source : steps[i].sources) {
      if (source != kNowhere) steps[source].last = i;
    }
    if (steps[i].index != kNowhere) steps[steps[i].index].last = i;
  }
  if (plan_.result != kNowhere) steps[plan_.result].last = count;
  if (plan_.target != kNowhere) steps[plan_.target].last = count;
  Vec<uint32_t> free_values(memory), free_indices(memory);
  for (uint32_t i = 0; i < count; ++i) {
    Step& step = steps[i];
    if (step.index != kNowhere && steps[step.index].last == i) {
      ASTER_TRY(free_indices.push(steps[step.index].slot));
    }
    for (size_t k = 0; k < 3; ++k) {
      const uint32_t source = step.sources[k];
      const bool again =
          (k > 0 && source == step.sources[0]) || (k > 1 && source == step.sources[1]);
      if (source == kNowhere || again || steps[source].last != i) continue;
      ASTER_TRY(free_values.push(steps[source].slot));
    }
    Vec<uint32_t>& freed = makes_index(step) ? free_indices : free_values;
    uint32_t& slots = makes_index(step) ? plan_.index_slots : plan_.value_slots;
    if (freed.empty()) {
      step.slot = slots++;
    } else {
      step.slot = freed.back();
      freed.pop();
    }
    if (step.last == i) ASTER_TRY(freed.push(step.slot));  // nobody reads it
  }
  return kOk;
}

}  // namespace

Status plan_value(Plan* out, const Values& values, uint32_t root) {
  Planner planner(*out, values);
  ASTER_TRY(planner.begin());
  ASTER_TRY(planner.value(root));
  return planner.assign_slots();
}

Status plan_storage(Plan* out, const Values& values, uint32_t view, const void* memory) {
  Planner planner(*out, values);
  ASTER_TRY(planner.begin());
  ASTER_TRY(planner.storage(view, memory));
  return planner.assign_slots();
}

}  // namespace aster::runtime::reference
