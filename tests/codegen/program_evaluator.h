// The meaning of programs: one lane at a time on canonical words, by uop::evaluate. What no program
// may do fails and names the instruction: an element outside of its memory, one that nothing has
// written, one that two tasks touch (or two items of a group between barriers) and one of them
// writes, an operation where it is not defined.
#pragma once

#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "codegen/kernel_support.h"
#include "codegen/program_support.h"
#include "codegen/walk.h"

namespace aster::codegen::program::tests {

using codegen::tests::Param;

class Evaluator {
 public:
  using Fetched = std::set<std::pair<int64_t, int64_t>>;  // params, and elements of them
  // Runs the last program of a module. "" or what went wrong. fetched: what prefetches name.
  static std::string run(const Module& module, std::vector<Param>& params,
                         const std::vector<int64_t>& sizes = {}, Fetched* fetched = nullptr) {
    Evaluator self(module, params, sizes);
    self.fetched_ = fetched;
    const Code& code = self.code_of(module.programs.size() - 1, 0);
    State state(code.words);
    self.execute(code, state, 0, code.nodes.size(), true);
    return self.error_;
  }

 private:
  enum class Kind { kStep, kOpen, kClose };
  struct Operand {
    size_t at;  // of its first lane
    Id id;
  };
  struct Node {
    Kind kind;
    Id id;
    const Instruction* in;
    Op op;
    size_t lanes, result;
    DType operand_type = DType::kNone;  // of the last operand
    size_t operand_lanes = 1;
    std::vector<Operand> operands{};
    std::vector<Word> words{};
    std::vector<std::pair<int64_t, size_t>> products{};
    int64_t constant = 0;
    uint16_t axis_value = 0;
    Access access{};
    size_t match = 0;  // of blocks: their other end
  };
  struct Code {
    const Program* program = nullptr;
    size_t call_lanes = 0;
    std::vector<Node> nodes;
    std::map<std::pair<Id, uint32_t>, size_t> registers;
    size_t words = 0;
    std::vector<size_t> open;

    size_t lanes(uint8_t lanes) const { return lanes == kAnyLanes ? call_lanes : lanes; }
    size_t at(Register r) {
      const auto [found, fresh] = registers.try_emplace({r.value, r.instance}, words);
      if (fresh) words += lanes(program->at(r.value).lanes);
      return found->second;
    }
    Status add(const Step& step, Kind kind) {
      Node node{kind, step.id, step.in, step.op, lanes(step.in->lanes), at(step.result)};
      for (const Register& r : step.operands) {
        node.operands.push_back({at(r), r.value});
        node.operand_type = program->at(r.value).dtype;
        node.operand_lanes = lanes(program->at(r.value).lanes);
      }
      node.words.assign(step.words.begin(), step.words.end());
      for (const Product& p : step.products) node.products.push_back({p.factor, at(p.at)});
      node.constant = step.constant;
      node.axis_value = step.values[step.in->axis];
      if (is_access(step.op)) node.access = program->access(*step.in);
      if (kind == Kind::kOpen) open.push_back(nodes.size());
      if (kind == Kind::kClose) {
        node.match = open.back();
        nodes[open.back()].match = nodes.size();
        open.pop_back();
      }
      nodes.push_back(std::move(node));
      return kOk;
    }
  };
  struct Recorder {
    Code& code;
    Status step(const Step& s) { return code.add(s, Kind::kStep); }
    Status open(const Step& s) { return code.add(s, Kind::kOpen); }
    Status close(const Step& s) { return code.add(s, Kind::kClose); }
  };

  struct Touch {
    int64_t group = -1, item = -1, epoch = -1;
  };
  struct Element {
    Touch writer, reader;
    bool many = false;    // several items read it in this epoch
    bool groups = false;  // several groups did
  };
  struct ArrayMemory {
    std::vector<Word> words;
    std::vector<bool> written;
    std::vector<Element> touched;
    void reset() {
      written.assign(words.size(), false);
      touched.assign(words.size(), Element{});
    }
  };
  // Of one item: where it is, and what it alone has.
  struct State {
    explicit State(size_t words) : registers(words) {}
    std::vector<Word> registers;
    std::map<Id, ArrayMemory> arrays;
    size_t pc = 0, end = 0;
    int64_t item = 0;
    bool done = false;
  };

  Evaluator(const Module& module, std::vector<Param>& params, const std::vector<int64_t>& sizes)
      : module_(module), params_(params), sizes_(sizes) {
    for (const Param& p : params) touched_.emplace_back(static_cast<size_t>(p.count));
  }

  Code& code_of(size_t program, size_t lanes) {
    std::unique_ptr<Code>& slot = codes_[{program, lanes}];
    if (slot == nullptr) {
      slot = std::make_unique<Code>();
      slot->program = &module_.programs[program];
      slot->call_lanes = lanes;
      Recorder recorder{*slot};
      EXPECT_TRUE(Walker<Recorder>(*slot->program, recorder).run().ok());
    }
    return *slot;
  }

  bool fail(const Node& node, const std::string& what) {
    if (error_.empty()) {
      error_ = "instruction " + std::to_string(node.id + 1) + " (" + uop::info(node.in->op).name +
               ") " + what;
    }
    return false;
  }

  int64_t form(const Node& node, const State& state) const {
    int64_t out = node.constant;
    for (const auto& [factor, at] : node.products) out += factor * state.registers[at];
    return out;
  }

  // Runs from state.pc up to end; false where it waits at a barrier or something failed.
  bool execute(const Code& code, State& state, size_t from, size_t end, bool whole) {
    state.pc = from;
    while (state.pc < end && error_.empty()) {
      const Node& node = code.nodes[state.pc];
      if (node.kind == Kind::kStep) {
        ++state.pc;
        if (node.op == Op::kBarrier) return false;
        step(code, node, state);
      } else if (node.kind == Kind::kClose) {
        close(code, node, state);
      } else if (!opens(code, node, state)) {
        state.pc = node.match + 1;
      } else if (opens_items(node)) {
        if (!whole) return false;  // an item that becomes several
        group(code, state);
      } else {
        enter(node, state);
        ++state.pc;
      }
    }
    return error_.empty();
  }
  Word bound(const Node& node, const State& state, bool high) const {
    if (node.in->is(high ? kImmediateHigh : kImmediate)) return node.words[high ? 1 : 0];
    return state.registers[(high ? node.operands.back() : node.operands.front()).at];
  }
  bool opens(const Code&, const Node& node, State& state) {
    if (node.op == Op::kIf) return state.registers[node.operands[0].at] != 0;
    state.registers[node.result] = bound(node, state, false);
    return state.registers[node.result] < bound(node, state, true);
  }
  static bool opens_items(const Node& node) {
    return node.kind == Kind::kOpen && node.op == Op::kLoop &&
           is_local(static_cast<LoopKind>(node.in->kind));
  }
  // A new iteration of a loop: of a task, with arrays that nothing has written.
  void enter(const Node& node, State& state) {
    if (node.op != Op::kLoop || node.in->kind == 0) return;
    ++group_;
    item_ = 0;
    for (auto* arrays : {&shared_, &state.arrays}) {
      for (auto& [id, array] : *arrays) array.reset();
    }
  }
  void close(const Code& code, const Node& node, State& state) {
    const Node& open = code.nodes[node.match];
    if (open.op != Op::kLoop) {
      ++state.pc;
      return;
    }
    Word& index = state.registers[open.result];
    index += open.words[2];
    if (index >= bound(open, state, true)) {
      ++state.pc;
      return;
    }
    state.pc = node.match + 1;
    enter(open, state);
  }

  // The items of a group, side by side from barrier to barrier.
  void group(const Code& code, State& state) {
    std::vector<State> items;
    fork(code, state, &items);
    const size_t after = code.nodes[state.pc].match + 1;
    for (bool going = true; going && error_.empty(); ++epoch_) {
      size_t waiting = 0;
      for (size_t i = 0; i < items.size() && error_.empty(); ++i) {
        if (items[i].done) continue;
        const int64_t kept = item_;
        item_ = items[i].item;
        const bool ended = execute(code, items[i], items[i].pc, items[i].end, false);
        item_ = kept;
        if (ended) {
          items[i].done = true;
        } else if (error_.empty() && opens_items(code.nodes[items[i].pc])) {
          State parent = items[i];
          items[i].done = true;
          fork(code, parent, &items);
        } else {
          ++waiting;
        }
      }
      going = waiting != 0;
    }
    state.pc = after;
  }
  void fork(const Code& code, const State& state, std::vector<State>* items) {
    const Node& open = code.nodes[state.pc];
    for (Word i = bound(open, state, false); i < bound(open, state, true); i += open.words[2]) {
      State item = state;
      item.registers[open.result] = i;
      item.pc = state.pc + 1;
      item.end = open.match;
      item.item = ++items_;
      items->push_back(std::move(item));
    }
  }

  ArrayMemory& array_of(Id id, const Code& code, State& state) {
    const Instruction& in = code.program->at(id);
    const bool own = static_cast<Space>(in.kind) == Space::kPrivate;
    auto& arrays = own ? state.arrays : shared_;
    ArrayMemory& out = arrays[id];
    if (out.words.empty()) {
      const size_t slack = static_cast<size_t>(code.program->words(in)[0]);
      out.words.resize(static_cast<size_t>(in.constant) + slack);
      out.reset();
    }
    return out;
  }

  bool touch(const Node& node, Element& element, bool writes) {
    const Touch now{group_, item_, epoch_};
    Touch &w = element.writer, &r = element.reader;
    const bool written =
        w.group >= 0 && (w.group != now.group || (w.epoch == now.epoch && w.item != now.item));
    const bool read =
        r.group >= 0 && (element.groups || r.group != now.group ||
                         (r.epoch == now.epoch && (r.item != now.item || element.many)));
    if (written || (writes && read)) {
      return fail(node, "touches an element that another task or item touches");
    }
    if (writes) {
      w = now;
    } else {
      element.groups |= r.group >= 0 && r.group != now.group;
      element.many =
          r.epoch == now.epoch && r.group == now.group && (element.many || r.item != now.item);
      r = now;
    }
    return true;
  }
  // One element of an access, read into or written from a word.
  bool element(const Code& code, const Node& node, State& state, int64_t at, bool writes,
               Word* word) {
    const Instruction& memory = code.program->at(node.access.memory);
    const Words words = code.program->words(memory);
    if (memory.op == Op::kTable) {
      if (at < 0 || at >= static_cast<int64_t>(words.size()))
        return fail(node, "leaves its memory");
      *word = words[static_cast<size_t>(at)];
      return true;
    }
    if (memory.op == Op::kParam) {
      const size_t slot = static_cast<size_t>(words[0]);
      if (at < 0 || at >= params_[slot].count) return fail(node, "leaves its memory");
      if (node.op != Op::kAtomic && !touch(node, touched_[slot][static_cast<size_t>(at)], writes)) {
        return false;
      }
      if (writes) {
        params_[slot].set(at, *word);
      } else {
        *word = params_[slot].get(at);
      }
      return true;
    }
    ArrayMemory& array = array_of(node.access.memory, code, state);
    const int64_t room = memory.constant + (writes ? 0 : words[0]);
    if (at < 0 || at >= room) return fail(node, "leaves its memory");
    const size_t i = static_cast<size_t>(at);
    if (at < memory.constant && !touch(node, array.touched[i], writes)) return false;
    if (writes) {
      array.written[i] = true;
      array.words[i] = *word;
    } else if (at < memory.constant && !array.written[i]) {
      return fail(node, "reads what nothing has written");
    } else {
      *word = array.words[i];
    }
    return true;
  }
  void access(const Code& code, const Node& node, State& state) {
    const Access& a = node.access;
    const Op op = node.op;
    if (op == Op::kPrefetch) {
      const Instruction& memory = code.program->at(a.memory);
      if (fetched_ != nullptr && memory.op == Op::kParam)
        fetched_->insert({code.program->words(memory)[0], form(node, state)});
      return;
    }
    size_t next = op == Op::kLoad ? 1 : 2;
    const auto take = [&](Id id) { return id == kNone ? SIZE_MAX : node.operands[next++].at; };
    const size_t index = take(a.index), gate = take(a.gate), mask = take(a.mask);
    const int64_t base = form(node, state);
    const size_t first = node.in->lanes == kAnyLanes ? node.lanes : static_cast<size_t>(a.first);
    for (size_t lane = 0; lane < node.lanes; ++lane) {
      const bool open = lane < first && (gate == SIZE_MAX || state.registers[gate] != 0) &&
                        (mask == SIZE_MAX || state.registers[mask + lane] != 0);
      Word word = 0;
      const int64_t at = base + (index != SIZE_MAX ? state.registers[index + lane]
                                                   : a.step * static_cast<int64_t>(lane));
      if (op == Op::kLoad) {
        if (open && !element(code, node, state, at, false, &word)) return;
        state.registers[node.result + lane] = word;
      } else if (open) {
        const Word value = state.registers[node.operands[1].at + lane];
        word = value;
        if (op == Op::kAtomic) {
          if (!element(code, node, state, at, false, &word)) return;
          const DType d = code.program->at(a.memory).dtype;
          const Word both[3] = {word, value, 0};
          word = uop::evaluate(node.in->with, d, d, both);
        }
        if (!element(code, node, state, at, true, &word)) return;
      }
    }
  }

  void step(const Code& code, const Node& node, State& state) {
    if (is_access(node.op)) return access(code, node, state);
    Word* const out = state.registers.data() + node.result;
    const auto in = [&](size_t operand, size_t lane = 0) {
      return state.registers[node.operands[operand].at + lane];
    };
    if (node.op == Op::kParam) return param(node, state);
    if (node.op == Op::kArray) {
      return array_of(node.id, code, state).reset();
    }
    if (node.op == Op::kTable) return;
    if (node.op == Op::kSet) {
      const size_t lanes = code.lanes(code.program->at(node.operands[0].id).lanes);
      for (size_t i = 0; i < lanes; ++i) state.registers[node.operands[0].at + i] = in(1, i);
      return;
    }
    if (node.op == Op::kResult) {
      result_.assign(&state.registers[node.operands[0].at],
                     &state.registers[node.operands[0].at] + code.call_lanes);
      return;
    }
    if (node.op == Op::kAcross) return across(node, state);
    if (node.op == Op::kCall) return call(node, state);
    for (size_t i = 0; i < node.lanes; ++i) {
      if (node.op == Op::kConst) {
        out[i] = node.in->op == Op::kTurn ? 0 : node.words[0];
      } else if (node.op == Op::kAxis) {
        out[i] = node.axis_value;
      } else if (node.op == Op::kLanes) {
        out[i] = static_cast<Word>(i);
      } else if (node.op == Op::kAcc) {
        out[i] = node.in->is(kImmediate) ? node.words[0] : in(0, i);
      } else if (node.op == Op::kSpread) {
        out[i] = in(0);
      } else if (node.op == Op::kLane) {
        out[i] = in(0, static_cast<size_t>(node.words[0]));
      } else if (node.op == Op::kShuffle) {
        const size_t from = static_cast<size_t>(node.words[i]), n = node.operand_lanes;
        out[i] = from < n ? in(0, from) : in(1, from - n);
      } else if (node.op == Op::kBitcast) {
        Param bits{node.operand_type, 1, std::vector<uint8_t>(8)};
        bits.set(0, in(0, i));
        bits.dtype = node.in->dtype;
        out[i] = bits.get(0);
      } else {
        Word words[3] = {};
        for (size_t k = 0; k < node.operands.size(); ++k) words[k] = in(k, i);
        if (!uop::is_defined(node.op, node.operand_type, node.in->dtype, words)) {
          fail(node, "is not defined on its operands");
          return;
        }
        out[i] = uop::evaluate(node.op, node.operand_type, node.in->dtype, words);
      }
    }
  }
  void param(const Node& node, State& state) {
    if (!node.in->is(kSize)) return;
    const size_t slot = static_cast<size_t>(node.words[0]);
    const int64_t value = slot < sizes_.size() ? sizes_[slot] : node.words[1];
    if (value < node.words[1] || value > node.words[2] || value % node.words[3] != 0) {
      fail(node, "is given what it does not allow");
      return;
    }
    state.registers[node.result] = value;
  }
  void across(const Node& node, State& state) {
    std::vector<Word> lanes(&state.registers[node.operands[0].at],
                            &state.registers[node.operands[0].at] + node.operand_lanes);
    for (size_t half = lanes.size() / 2; half != 0; half /= 2) {
      for (size_t i = 0; i < half; ++i) {
        const Word both[3] = {lanes[i], lanes[i + half], 0};
        lanes[i] = uop::evaluate(node.in->with, node.in->dtype, node.in->dtype, both);
      }
    }
    state.registers[node.result] = lanes[0];
  }
  void call(const Node& node, State& state) {
    Code& callee = code_of(static_cast<size_t>(node.words[0]), node.lanes);
    State inner(callee.words);
    for (const Node& param : callee.nodes) {
      if (param.op != Op::kParam) continue;
      const Operand from = node.operands[static_cast<size_t>(param.words[0])];
      for (size_t i = 0; i < param.lanes; ++i) {
        inner.registers[param.result + i] = state.registers[from.at + i];
      }
    }
    execute(callee, inner, 0, callee.nodes.size(), true);
    for (size_t i = 0; i < node.lanes && error_.empty(); ++i) {
      state.registers[node.result + i] = result_[i];
    }
  }

  const Module& module_;
  std::vector<Param>& params_;
  const std::vector<int64_t>& sizes_;
  std::map<std::pair<size_t, size_t>, std::unique_ptr<Code>> codes_;
  std::map<Id, ArrayMemory> shared_;
  std::vector<std::vector<Element>> touched_;
  std::vector<Word> result_;
  Fetched* fetched_ = nullptr;
  std::string error_;
  int64_t group_ = 0, item_ = 0, epoch_ = 0, items_ = 0;
};

// Memory for the Params of a program, of these values: small integers and halves for floats.
inline std::vector<Param> make_params(const Program& program, uint64_t seed,
                                      const std::vector<int64_t>& sizes = {}) {
  std::mt19937_64 random(seed);
  std::vector<Param> out;
  for (const Instruction& in : program.code()) {
    if (in.op != Op::kParam || in.is(kSize)) continue;
    const size_t slot = static_cast<size_t>(program.words(in)[0]);
    if (out.size() <= slot) out.resize(slot + 1);
    int64_t count = in.constant;
    for (const Term& term : program.terms(in)) {
      count += term.factor * sizes[static_cast<size_t>(program.words(program.at(term.at))[0])];
    }
    Param& p = out[slot];
    p.dtype = in.dtype;
    p.count = count;
    p.bytes.resize(static_cast<size_t>(count) * dtype::size(in.dtype));
    for (int64_t i = 0; i < count; ++i) {
      const int64_t whole = static_cast<int64_t>(random() % 65) - 32;
      const double real =
          static_cast<double>(whole) / 8 + std::ldexp(static_cast<double>(random() % 4096), -20);
      p.set(i, dtype::is_float(in.dtype)
                   ? std::bit_cast<Word>(dtype::truncate_float(in.dtype, real))
               : in.dtype == DType::kBool ? whole & 1
                                          : dtype::truncate_int(in.dtype, whole));
    }
  }
  return out;
}

}  // namespace aster::codegen::program::tests
