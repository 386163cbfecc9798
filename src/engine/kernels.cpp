#include "engine/kernels.h"

#include <algorithm>

#include "engine/tracer.h"
#include "engine/tune.h"
#include "runtime/tiers.h"

namespace aster::engine {
namespace {

using uop::Graph;

class Maker {
 public:
  Maker(Kernels& kernels, Executable* exe, Engine& engine)
      : kernels_(kernels),
        exe_(*exe),
        engine_(engine),
        device_(*kernels.device),
        memory_(kernels.rendered.memory()),
        wanted_(memory_) {}

  Status render(Graph& scratch, const Schedule& schedule, const Kernels* others) {
    const bool tunes = on_host() && engine_.context.beam() != 0;
    codegen::SizeClasses* const classes =
        exe_.own_sizes || tunes ? nullptr : engine_.size_classes();
    if (classes != nullptr) classes->begin_call(device_.at_hand);
    Vec<uint32_t> operands(memory_);
    for (const Item& item : schedule.items) {
      if (item.kind != ItemKind::kKernel || kernels_.numbers.contains(item.kernel)) continue;
      if (others != nullptr && others->function(item.kernel) != nullptr) continue;
      if (engine_.context.interrupt().requested()) return Interrupt::stopped("kernels are written");
      codegen::Rendered one(memory_);
      codegen::Plan tuned(memory_);
      bool found = false;
      if (tunes) ASTER_TRY(tuned_plan(&tuned, &found, engine_, device_, scratch, item.kernel));
      codegen::Constants constants(memory_);
      if (!found && !exe_.away) constants.slots = constant_slots(exe_, schedule, item.kernel);
      const Status status =
          codegen::render(one, scratch, item.kernel, device_.target, classes,
                          found ? &tuned : nullptr, constants.slots != 0 ? &constants : nullptr);
      if (!on_host() && status.code == ASTER_ML_UNSUPPORTED) {
        ASTER_TRY(say());
        continue;
      }
      ASTER_TRY(status);
      ASTER_TRY(kernels_.numbers.set(item.kernel, static_cast<uint32_t>(operands.size())));
      ASTER_TRY(operands.push(item.operand_count));
      ASTER_TRY(kernels_.rendered.push(std::move(one)));
      ASTER_TRY(kernels_.constants.push(std::move(constants)));
    }
    // What is made for elsewhere does not run here: its copies are made by their programs.
    for (codegen::Constants& of : kernels_.constants) {
      if (engine_.made_for != nullptr) break;
      for (codegen::ConstantCopy& copy : of.copies) {
        if (kernels_.copies.contains(copy.code.name)) continue;
        const auto number = static_cast<uint32_t>(kernels_.rendered.size());
        ASTER_TRY(kernels_.copies.set(copy.code.name, number));
        ASTER_TRY(operands.push(uint32_t{2}));
        ASTER_TRY(kernels_.rendered.push(std::move(copy.code)));
      }
    }
    for (size_t i = 0; i < operands.size(); ++i)
      ASTER_TRY(kernels_.requests.push(runtime::Request{&kernels_.rendered[i], operands[i]}));
    return kOk;
  }

  Status load(const Schedule& schedule, const Arena& scratch_memory) {
    const bool by_kernel = engine_.context.options().no_fallback == 0;
    for (uint32_t i = 0; i < kernels_.requests.size(); ++i) {
      if (!by_kernel || !engine_.refused.contains(key_of(i))) ASTER_TRY(wanted_.push(i));
    }
    if (kernels_.requests.empty()) return kOk;
    // Where times and code are looked at, they are those of machine code.
    const bool waits = engine_.measures || Tracer::of(engine_.trace) != nullptr;
    if (by_kernel && on_host() && !waits && runtime::has_tiers()) ASTER_TRY(choose_tiers(schedule));
    const SavedError before;
    Status loaded = wanted_.empty()
                        ? ASTER_FAIL(kCOMPILE, "the compiler refused these kernels before")
                        : load({wanted_.data(), wanted_.size()});
    if (scratch_memory.failed()) return ASTER_FAIL(kMEMORY, "a kernel's text ran out of memory");
    if (by_kernel && loaded.code == ASTER_ML_COMPILE && wanted_.size() > 1) {
      loaded = load_each();
      if (loaded.ok()) before.restore();
    }
    if (on_host() && loaded.ok() && device_.at_once) {
      ASTER_TRY(runtime::make_at_once(&exe_.code, device_, engine_.context,
                                      {kernels_.requests.data(), kernels_.requests.size()}));
    }
    if (on_host() && loaded.ok() && !device_.compiles && !by_kernel) ASTER_TRY(check_code());
    if (on_host()) return loaded.ok() ? kOk : without_code(&exe_, engine_.context, loaded);
    if (loaded.code == ASTER_ML_UNSUPPORTED || (by_kernel && loaded.code == ASTER_ML_COMPILE)) {
      ASTER_TRY(say());
    } else {
      ASTER_TRY(loaded);
      ASTER_TRY(say_beyond());
    }
    before.restore();
    return kOk;
  }

 private:
  // What ends the search for those that the compiler takes: as often it may fail, or not end.
  static constexpr size_t kMostRefused = 16, kMostEndless = 2;

  // Where nothing may stand in for machine code, each has to have it.
  Status check_code() const {
    for (const runtime::Request& request : kernels_.requests) {
      if (request.at_once == nullptr)
        return ASTER_FAIL(kCOMPILE, "%s: no compiler, and no machine code of our own for it",
                          request.kernel->title);
    }
    return kOk;
  }
  bool on_host() const { return device_.backend == nullptr; }
  Status say() { return on_host() ? engine_.say_interpreted() : engine_.say_on_host(device_.code); }
  Status say_beyond() {
    const auto none = [&](uint32_t i) { return kernels_.requests[i].function == nullptr; };
    if (std::none_of(wanted_.begin(), wanted_.end(), none)) return kOk;
    (void)ASTER_FAIL(kUNSUPPORTED, "a kernel is beyond the device");
    return say();
  }
  uint64_t key_of(uint32_t i) const {
    return hash_mix(static_cast<uint64_t>(device_.code),
                    runtime::cpu::NameHash()(kernels_.rendered[i].name));
  }

  // Which kernels may begin without machine code: what all launches of one take so is less than
  // what a compiler takes.
  Status choose_tiers(const Schedule& schedule) {
    Vec<double> taken(memory_);
    ASTER_TRY(taken.resize(kernels_.requests.size(), 0.0));
    for (const Item& item : schedule.items) {
      const uint32_t* const number = kernels_.numbers.find(item.kernel);
      if (number == nullptr || item.kind != ItemKind::kKernel) continue;
      const auto add = [&](uint32_t kernel) {
        if (kernel == taken.size()) return;  // a copy that its program makes
        taken[kernel] += runtime::strips_nanoseconds(kernels_.rendered[kernel]);
      };
      add(*number);
      for (const codegen::ConstantCopy& copy : kernels_.constants[*number].copies)
        add(kernels_.number_of(copy));
    }
    for (size_t i = 0; i < taken.size(); ++i) {
      kernels_.requests[i].may_wait = !kernels_.rendered[i].module.programs.empty() &&
                                      (device_.at_once || taken[i] <= runtime::kMostByStrips);
    }
    return kOk;
  }

  // Some of the kernels at once.
  Status load(std::span<const uint32_t> which) {
    Vec<runtime::Request> some(memory_);
    for (const uint32_t i : which) ASTER_TRY(some.push(kernels_.requests[i]));
    runtime::LoadCounts counts;
    ASTER_TRY(
        device_.load(&exe_.code, &counts, device_, engine_.context, {some.data(), some.size()}));
    for (size_t i = 0; i < which.size(); ++i) {
      kernels_.requests[which[i]].function = some[i].function;
      kernels_.requests[which[i]].later = some[i].later;
    }
    engine_.counters.kernels_compiled += counts.compiled;
    engine_.counters.kernels_cached += counts.found;
    return kOk;
  }

  // One after another, each with what it needs and no more; keeps those wanted that the compiler
  // takes. Errors: COMPILE (it takes none).
  Status load_each() {
    Vec<uint32_t> taken(memory_), refused(memory_);
    Vec<SavedError> reasons(memory_);
    size_t endless = 0;
    Status last;
    for (const uint32_t i : wanted_) {
      if (reasons.size() == kMostRefused || endless == kMostEndless) {
        ASTER_TRY(refused.push(i));
        continue;
      }
      const double start = milliseconds();
      const Status one = load({&i, 1});
      ASTER_TRY(one.ok() ? taken.push(i) : refused.push(i));
      if (one.ok()) continue;
      if (one.code != ASTER_ML_COMPILE && one.code != ASTER_ML_UNSUPPORTED) return one;
      if (milliseconds() - start >= engine_.context.options().compile_timeout_ms) ++endless;
      last = ASTER_FAIL(kCOMPILE, "%s: %s", kernels_.rendered[i].title, SavedError::message());
      ASTER_TRY(reasons.push(SavedError()));
    }
    if (taken.empty()) return last;
    for (const uint32_t i : refused) ASTER_TRY(engine_.refused.set(key_of(i), true));
    for (const SavedError& reason : reasons) {
      reason.restore();
      ASTER_TRY(say());
    }
    wanted_ = std::move(taken);
    return kOk;
  }

  Kernels& kernels_;
  Executable& exe_;
  Engine& engine_;
  const runtime::Device& device_;
  Memory& memory_;
  Vec<uint32_t> wanted_;
};

}  // namespace

// What the system refused now it may grant next time.
Status without_code(Executable* exe, const Context& context, Status status) {
  exe->for_now = status.code == ASTER_ML_DEVICE;
  if (!exe->for_now && status.code != ASTER_ML_UNSUPPORTED && status.code != ASTER_ML_COMPILE)
    return status;
  if (context.options().no_fallback != 0) return ASTER_FAIL(kCOMPILE, "%s", SavedError::message());
  return ASTER_FAIL(kUNSUPPORTED, "%s", SavedError::message());
}

Status make_kernels(Kernels* kernels, Executable* exe, Engine& engine, Graph& scratch,
                    const Schedule& schedule, const runtime::Device& device, const Kernels* others,
                    const Arena& scratch_memory) {
  kernels->device = &device;
  Maker maker(*kernels, exe, engine);
  ASTER_TRY(maker.render(scratch, schedule, others));
  return maker.load(schedule, scratch_memory);
}

}  // namespace aster::engine
