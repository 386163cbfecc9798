// Captured programs without their engine: launches, where their pointers begin, and the constants.
#include <algorithm>

#include "nn/freeze/freeze.h"
#include "runtime/cpu/machine.h"

namespace aster::nn::freeze {
namespace {

namespace machine = runtime::cpu::machine;
using engine::Program;
using engine::Result;
using engine::Source;
using engine::Where;

constexpr int64_t kAlignment = 64;
int64_t aligned(int64_t bytes) { return (bytes + kAlignment - 1) & ~(kAlignment - 1); }

// Bytes that launches read or write and that are no one's input: where they are now, and where they
// go.
struct Block {
  uintptr_t begin, end;
  int64_t offset;  // into the constants, or into state
};

// Blocks by address.
class Blocks {
 public:
  explicit Blocks(Memory& memory) : all_(memory) {}
  Status add(uintptr_t begin, size_t bytes) { return all_.push(Block{begin, begin + bytes, 0}); }
  // Overlaps become one; each begins as it lies to 64 bytes. Returns the bytes of all.
  int64_t place(int64_t from) {
    std::ranges::sort(all_, {}, &Block::begin);
    size_t kept = 0;
    for (const Block& block : all_) {
      if (kept != 0 && block.begin < all_[kept - 1].end) {
        all_[kept - 1].end = std::max(all_[kept - 1].end, block.end);
      } else {
        all_[kept++] = block;
      }
    }
    all_.truncate(kept);
    int64_t at = from;
    for (Block& block : all_) {
      block.offset = aligned(at) + static_cast<int64_t>(block.begin % kAlignment);
      at = block.offset + static_cast<int64_t>(block.end - block.begin);
    }
    return at;
  }
  const Block* find(uintptr_t address) const {
    for (const Block& block : all_) {
      if (address >= block.begin && address < block.end) return &block;
    }
    return nullptr;
  }
  const Vec<Block>& all() const { return all_; }

 private:
  Vec<Block> all_;
};

class Flattener {
 public:
  Flattener(Model& model, std::span<Program* const> programs)
      : m_(model),
        programs_(programs),
        constants_(model.constants.memory()),
        states_(model.constants.memory()) {}

  Status run() {
    ASTER_TRY(take_arrays(*programs_[0]));
    for (const Program* program : programs_) ASTER_TRY(check(*program));
    for (const Program* program : programs_) ASTER_TRY(find_states(*program));
    // What state begins with lies behind the constants as it will lie in the memory.
    m_.state_bytes = aligned(states_.place(0));
    for (const Program* program : programs_) ASTER_TRY(find_constants(*program));
    m_.state_from = aligned(constants_.place(0));
    ASTER_TRY(m_.constants.resize(static_cast<size_t>(m_.state_from + m_.state_bytes), 0));
    fill(constants_, 0);
    fill(states_, m_.state_from);
    m_.checksum = portable::checksum({m_.constants.data(), m_.constants.size()});
    workspace_ = m_.head_bytes + m_.state_bytes;
    m_.memory_bytes = workspace_;
    for (size_t i = 0; i < programs_.size(); ++i) {
      m_.memory_bytes = std::max(m_.memory_bytes, workspace_ + aligned(programs_[i]->bytes));
      ASTER_TRY(take_code(m_.codes[i], *programs_[i]));
    }
    return kOk;
  }

 private:
  Status take_array(Vec<Array>* list, const Program& program, const engine::Array& array,
                    std::string_view name, const char* kind) {
    Array out(list->memory());
    out.name << name;
    out.dtype = array.dtype;
    out.bytes = static_cast<int64_t>(engine::array_bytes(program, array));
    for (const int64_t dim : program.shape(array)) ASTER_TRY(out.dims.push(dim));
    if (dtype::is_wide(out.dtype)) {
      return ASTER_FAIL(kUNSUPPORTED, "%s %.64s is %s, which is computed by this library", kind,
                        out.name.c_str(), dtype::name(out.dtype));
    }
    ASTER_TRY(out.name.status());
    return list->push(std::move(out));
  }
  Status take_arrays(const Program& program) {
    for (size_t i = 0; i < program.inputs.size(); ++i)
      ASTER_TRY(take_array(&m_.inputs, program, program.inputs[i], program.values[i].name.view(),
                           "input"));
    for (size_t i = 0; i < program.results.size(); ++i) {
      ASTER_TRY(take_array(&m_.outputs, program, program.results[i].array,
                           program.values[program.inputs.size() + i].name.view(), "output"));
    }
    for (const uint32_t i : program.assigned) m_.inputs[i].written = true;
    return kOk;
  }

  static Status check(const Program& program) {
    if (program.hidden != 0 || !program.variables.empty())
      return ASTER_FAIL(kUNSUPPORTED, "a program whose sizes are variables: give it numbers");
    if (!program.drawn.empty())
      return ASTER_FAIL(kUNSUPPORTED, "a program that draws random numbers");
    if (program.away || program.interprets || !program.renewed.empty())
      return ASTER_FAIL(kUNSUPPORTED, "a program that is not of kernels alone");
    for (const engine::Entry& entry : program.entries) {
      for (const engine::Launch& launch : entry.exe->launches) {
        if (launch.plan == nullptr) continue;
        return ASTER_FAIL(kUNSUPPORTED, "the program needs %s, which is a function of this library",
                          launch.plan->name());
      }
    }
    return kOk;
  }

  // Calls visit(source, slot bytes, shift) for every pointer of every launch.
  template <typename Visit>
  static Status each_pointer(const Program& program, Visit visit) {
    size_t at = 0;
    for (const engine::Entry& entry : program.entries) {
      const engine::Executable& exe = *entry.exe;
      for (const engine::Launch& launch : exe.launches) {
        for (uint32_t o = 0; o < launch.operand_count; ++o) {
          const uint32_t index = launch.first_operand + o;
          ASTER_TRY(visit(program.sources[at++], exe.slots[exe.operands[index]].bytes(),
                          exe.shift(index)));
        }
      }
    }
    return kOk;
  }
  static uintptr_t address(const Source& source) {
    return reinterpret_cast<uintptr_t>(source.fixed) + static_cast<uintptr_t>(source.offset);
  }

  // Whole storages, of which a launch writes something.
  Status find_states(const Program& program) {
    const auto visit = [&](const Source& source, int64_t bytes, int64_t shift) -> Status {
      if (source.where != Where::kFixed || source.fixed == nullptr || bytes == 0) return kOk;
      const uintptr_t begin = address(source) - static_cast<uintptr_t>(shift);
      const buffer::Region region{nullptr, begin, begin + static_cast<uintptr_t>(bytes)};
      if (!program.writes.touches(region)) return kOk;
      for (const buffer::Storage* storage : program.kept) {
        const auto data = reinterpret_cast<uintptr_t>(storage->data);
        if (begin >= data && begin < data + storage->bytes)
          return states_.add(data, storage->bytes);
      }
      return ASTER_FAIL(kINTERNAL, "a program writes memory that it does not hold");
    };
    return each_pointer(program, visit);
  }

  Status find_constants(const Program& program) {
    const auto visit = [&](const Source& source, int64_t bytes, int64_t shift) -> Status {
      if (source.where != Where::kFixed || source.fixed == nullptr || bytes == 0) return kOk;
      return add_constant(address(source) - static_cast<uintptr_t>(shift), bytes);
    };
    ASTER_TRY(each_pointer(program, visit));
    for (const Result& result : program.results) {
      const auto bytes = static_cast<int64_t>(engine::array_bytes(program, result.array));
      if (result.where == Where::kFixed && bytes != 0)
        ASTER_TRY(add_constant(fixed_address(result), bytes));
    }
    return kOk;
  }
  static uintptr_t fixed_address(const Result& result) {
    return reinterpret_cast<uintptr_t>(result.array.storage->data) +
           static_cast<uintptr_t>(result.array.offset);
  }
  Status add_constant(uintptr_t begin, int64_t bytes) {
    if (states_.find(begin) != nullptr) return kOk;
    return constants_.add(begin, static_cast<size_t>(bytes));
  }
  void fill(const Blocks& blocks, int64_t from) {
    for (const Block& block : blocks.all()) {
      std::memcpy(m_.constants.data() + from + block.offset,
                  reinterpret_cast<const void*>(block.begin), block.end - block.begin);
    }
  }

  Operand fixed(uintptr_t address) const {
    const Block* state = states_.find(address);
    if (state != nullptr)
      return {kMemory,
              m_.head_bytes + state->offset + static_cast<int64_t>(address - state->begin)};
    const Block* block = constants_.find(address);
    if (block == nullptr) return {kAbsent, 0};
    return {kConstants, block->offset + static_cast<int64_t>(address - block->begin)};
  }
  Operand operand(const Program& program, const Source& source, int64_t shift) const {
    switch (source.where) {
      case Where::kInput:
        return {kFirstInput + source.index, source.offset};
      case Where::kResult:
        return {output(source.index), source.offset - program.results[source.index].offset};
      case Where::kWorkspace:
        return {kMemory, workspace_ + source.offset};
      default: {
        if (source.fixed == nullptr) return {kAbsent, 0};
        Operand out = fixed(address(source) - static_cast<uintptr_t>(shift));
        if (out.base != kAbsent) out.offset += shift;
        return out;
      }
    }
  }
  uint32_t output(size_t index) const {
    return kFirstInput + static_cast<uint32_t>(m_.inputs.size() + index);
  }

  Status take_code(Code& code, const Program& program) {
    ASTER_TRY(each_pointer(program, [&](const Source& source, int64_t, int64_t shift) {
      return code.operands.push(operand(program, source, shift));
    }));
    uint32_t first = 0;
    for (const engine::Entry& entry : program.entries) {
      const engine::Executable& exe = *entry.exe;
      for (const engine::Launch& launch : exe.launches) {
        if (launch.size_count != 0)
          return ASTER_FAIL(kINTERNAL, "a kernel that is not for its own sizes");
        Launch out{};
        // A number instead of an address (collect.cpp).
        out.kernel = static_cast<uint32_t>(std::bit_cast<uintptr_t>(launch.function) - 1);
        out.tasks = launch.tasks;
        out.first_operand = first;
        out.operands = launch.operand_count;
        out.scratch = workspace_ + exe.scratch_offset;
        out.stride = launch.scratched ? exe.scratch_stride : 0;
        out.parts = parts_of(launch);
        first += out.operands;
        ASTER_TRY(code.launches.push(out));
      }
    }
    return take_copies(code, program);
  }
  // As the engine cuts them.
  int64_t parts_of(const engine::Launch& launch) const {
    if (m_.threads <= 1 || launch.tasks <= 1 || launch.nanoseconds < machine::kWorthThreads)
      return 1;
    const int64_t most = launch.scratched ? m_.threads : m_.threads * machine::kPartsPerThread;
    return std::min<int64_t>(launch.tasks, most);
  }
  Status take_copies(Code& code, const Program& program) {
    for (size_t i = 0; i < program.results.size(); ++i) {
      const Result& result = program.results[i];
      Copy copy{{}, static_cast<uint32_t>(i), m_.outputs[i].bytes};
      if (copy.bytes == 0 || result.where == Where::kResult) continue;
      if (result.where == Where::kWorkspace) {
        copy.from = {kMemory, workspace_ + result.offset};
        // Where the whole of it is a result, it is there.
        for (uint32_t other = 0; other < program.results.size(); ++other) {
          const Result& whole = program.results[other];
          if (whole.where != Where::kResult || result.array.storage != whole.array.storage)
            continue;
          copy.from = {output(other), result.offset - whole.offset};
        }
      } else if (result.where == Where::kInput) {
        const auto begin = engine::region_of(program, result.array).begin;
        const auto input = engine::region_of(program, program.inputs[result.input]).begin;
        copy.from = {kFirstInput + result.input, static_cast<int64_t>(begin - input)};
      } else {
        copy.from = fixed(fixed_address(result));
      }
      ASTER_TRY(code.copies.push(copy));
    }
    return kOk;
  }

  Model& m_;
  std::span<Program* const> programs_;
  Blocks constants_, states_;
  int64_t workspace_ = 0;  // into the memory
};

}  // namespace

Status flatten(Model& model, std::span<Program* const> programs) {
  return Flattener(model, programs).run();
}

}  // namespace aster::nn::freeze
