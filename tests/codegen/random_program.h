// Random programs as text: legal ones, of every kind of instruction that straight code, registers,
// loops, conditions and axes are made of. Equal seeds give equal text.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "codegen/program.h"

namespace aster::codegen::program::tests {

class RandomProgram {
 public:
  // Of operations that the C renderer knows for these targets: fused, with MulAcc of floats.
  RandomProgram(uint64_t seed, bool fused) : random_(seed), fused_(fused) {
    lanes_ = 1 << (1 + below(4));
    sizes_ = {1 + below(4), 2, lanes_};
    tasks_ = 1 + below(3);
    const char* const kTypes[] = {"f32", "f32", "f64", "i32", "i64", "u32",
                                  "u64", "i8",  "u8",  "i16", "u16"};
    main_ = kTypes[below(11)];
    other_ = kTypes[below(11)];
  }

  std::string text() {
    std::string inputs;
    for (const std::string& type : {main_, other_, std::string("bool")}) {
      inputs += label() + " = Param " + type + " " + std::to_string(slots_++) + " [4096]\n";
    }
    std::string body = task();
    std::string out = "program random\naxis u " + std::to_string(sizes_[0]) + ", v 2, w " +
                      std::to_string(lanes_) + "\n" + inputs;
    // Results have Params of their own, which stand in front; their labels count from 5000.
    for (size_t i = 0; i < results_.size(); ++i) {
      out += "%" + std::to_string(5000 + i) + " = Param " + results_[i].type + " " +
             std::to_string(slots_ + i) + " [" + std::to_string(results_[i].count) + "] write\n";
    }
    return out + body;
  }

 private:
  enum Set { kU = 1, kV = 2, kW = 4 };
  struct Value {
    std::string label, type;
    int lanes;
    int axes;
  };
  struct Result {
    std::string type;
    int64_t count;
  };

  int below(int n) { return static_cast<int>(random_() % static_cast<uint64_t>(n)); }
  std::string label() { return "%" + std::to_string(labels_++); }
  static bool real(const std::string& type) { return type[0] == 'f'; }
  int instances(int axes) const {
    int out = 1;
    for (int i = 0; i < 3; ++i) out *= (axes >> i & 1) != 0 ? sizes_[static_cast<size_t>(i)] : 1;
    return out;
  }
  std::string full(const std::string& type, int lanes) const {
    return lanes == 1 ? type : type + "x" + std::to_string(lanes);
  }
  static std::string braces(int axes) {
    std::string out;
    for (int i = 0; i < 3; ++i) {
      if ((axes >> i & 1) != 0) out += (out.empty() ? " {" : " ") + std::string(1, "uvw"[i]);
    }
    return out.empty() ? out : out + "}";
  }
  Value add(std::string* out, const std::string& op, const std::string& type, int lanes, int axes,
            const std::string& arguments) {
    Value value{label(), type, lanes, axes};
    *out +=
        value.label + " = " + op + " " + full(type, lanes) + braces(axes) + " " + arguments + "\n";
    values_.push_back(value);
    return value;
  }

  // An input's elements; within = axes that it has to have.
  Value load(std::string* out, const std::string& type, int lanes, int within = 0) {
    const int axes = within | (below(3) == 0 ? kU : 0) | (below(4) == 0 ? kV : 0);
    std::string form = type == main_ ? "%0" : type == other_ ? "%1" : "%2";
    form += " + " + std::to_string(200 + below(300));
    if (below(2) == 0) form += " + " + std::to_string(1 + below(90)) + "*" + task_;
    for (const std::string& loop : loops_) {
      if (below(3) != 0) form += " + " + std::to_string(1 + below(40)) + "*" + loop;
    }
    if ((axes & kU) != 0) form += " + " + std::to_string(1 + below(50)) + "*u";
    if ((axes & kV) != 0) form += " - " + std::to_string(1 + below(50)) + "*v";
    int all = axes;
    if (lanes > 1 && below(8) == 0) {
      const Value at = add(out, "Lanes", "i32", lanes, 0, "");
      form += " at " + at.label;
    }
    if (below(10) == 0) {
      const Value gate = condition(out, 1, axes);
      form += " gate " + gate.label;
      all |= gate.axes;
    }
    if (lanes > 1 && below(8) == 0) {
      const Value mask = condition(out, lanes, axes);
      form += " mask " + mask.label;
      all |= mask.axes;
    }
    const bool indexed = form.find(" at ") != std::string::npos;
    if (lanes > 1 && !indexed && below(5) == 0) {
      form +=
          " step " + std::to_string(std::vector<int>{-1, 2, 3, -2}[static_cast<size_t>(below(4))]);
    }
    if (lanes > 1 && below(6) == 0) form += " first " + std::to_string(1 + below(lanes));
    if (below(12) == 0) form += " keep";
    return add(out, "Load", type, lanes, all, form);
  }
  Value condition(std::string* out, int lanes, int axes) {
    const std::string type = below(2) == 0 ? main_ : other_;
    const Value a = pick(out, type, lanes, axes), b = pick(out, type, lanes, axes);
    const char* const kOps[] = {"CmpLt", "CmpLe", "CmpEq", "CmpNe"};
    return add(out, kOps[below(4)], "bool", lanes, a.axes | b.axes, a.label + " " + b.label);
  }
  // A value of this type whose axes are of these and, if it is loaded anew, of within.
  Value pick(std::string* out, const std::string& type, int lanes, int allowed = kU | kV,
             int within = 0) {
    std::vector<Value> fits;
    for (const Value& v : values_) {
      if (v.type == type && v.lanes == lanes && (v.axes & ~allowed) == 0 &&
          (within & ~v.axes) == 0) {
        fits.push_back(v);
      }
    }
    if (!fits.empty() && below(5) != 0)
      return fits[static_cast<size_t>(below(static_cast<int>(fits.size())))];
    if (type != main_ && type != other_ && type != "bool") return constant(out, type, lanes);
    const int before = busy_++;
    const Value out_value = before > 4 || allowed != (kU | kV) ? constant(out, type, lanes)
                                                               : load(out, type, lanes, within);
    busy_ = before;
    return out_value;
  }
  Value constant(std::string* out, const std::string& type, int lanes) {
    std::string number = std::to_string(below(real(type) ? 100 : 60));
    if (type == "bool") number = std::to_string(below(2));
    if (real(type) && below(3) == 0) number = "-0." + number;
    if (real(type) && below(20) == 0)
      number = std::vector<std::string>{"nan", "inf", "-inf", "-0"}[static_cast<size_t>(below(4))];
    const Value one = add(out, "Const", type, 1, 0, number);
    return lanes == 1 ? one : add(out, "Spread", type, lanes, 0, one.label);
  }

  Value arithmetic(std::string* out) {
    const std::string type = below(3) != 0 ? main_ : other_;
    const int lanes = below(4) == 0 ? 1 : lanes_;
    const Value a = pick(out, type, lanes), b = pick(out, type, lanes), c = pick(out, type, lanes);
    const std::string two = a.label + " " + b.label;
    switch (below(real(type) ? 10 : 11)) {
      case 0: {
        const char* const kOps[] = {"Neg", "Abs", "Neg"};
        return add(out, kOps[below(3)], type, lanes, a.axes, a.label);
      }
      case 1: {
        const Value m = condition(out, lanes, kU | kV);
        return add(out, "Where", type, lanes, m.axes | a.axes | b.axes, m.label + " " + two);
      }
      case 2:
        if (!real(type) || fused_) {
          return add(out, "MulAcc", type, lanes, a.axes | b.axes | c.axes, two + " " + c.label);
        }
        return add(out, "Mul", type, lanes, a.axes | b.axes, two);
      case 3: {
        const char* const kOps[] = {"Max", "Min", "Least", "Most"};
        return add(out, kOps[below(4)], type, lanes, a.axes | b.axes, two);
      }
      case 4:
        return real(type) ? add(out, "Sqrt", type, lanes, a.axes, a.label)
                          : add(out, "Not", type, lanes, a.axes, a.label);
      case 5:
        if (!real(type)) return bits(out, type, lanes, a, b);
        return below(2) == 0 ? add(out, "Div", type, lanes, a.axes | b.axes, two)
                             : add(out, "Recip", type, lanes, a.axes, a.label);
      default: {
        const char* const kOps[] = {"Add", "Sub", "Mul"};
        return add(out, kOps[below(3)], type, lanes, a.axes | b.axes, two);
      }
    }
  }
  Value bits(std::string* out, const std::string& type, int lanes, const Value& a, const Value& b) {
    const char* const kOps[] = {"And", "Or", "Xor", "Shl", "Shr"};
    return add(out, kOps[below(5)], type, lanes, a.axes | b.axes, a.label + " " + b.label);
  }
  void lanes(std::string* out) {
    const std::string type = below(2) == 0 ? main_ : below(4) == 0 ? "bool" : other_;
    const Value x = pick(out, type, lanes_);
    switch (below(7)) {
      case 0:
        add(out, "Lane", type, 1, x.axes, x.label + " " + std::to_string(below(lanes_)));
        return;
      case 1: {
        const Value y = pick(out, type, lanes_);
        std::string which;
        for (int i = 0; i < lanes_; ++i) which += " " + std::to_string(below(2 * lanes_));
        add(out, "Shuffle", type, lanes_, x.axes | y.axes, x.label + " " + y.label + which);
        return;
      }
      case 2:
        add(out, reduction(type, "Across"), type, 1, x.axes, x.label);
        return;
      case 3: {
        if (type == "bool") return;
        const Value row = load(out, type, lanes_, kV);
        if ((row.axes & kU) != 0) return;
        add(out, "Turn", type, lanes_, kW, row.label + " v->w");
        return;
      }
      case 4: {
        const Value pair = load(out, type, lanes_, kV);
        add(out, "Zip", type, lanes_, pair.axes, pair.label + " v->v");
        return;
      }
      case 5: {
        const Value y = load(out, type, lanes_, kV);
        add(out, reduction(type, "Join"), type, lanes_, y.axes & ~kV, y.label + " v");
        return;
      }
      default: {
        const Value s = pick(out, type, 1);
        add(out, "Spread", type, lanes_, s.axes, s.label);
      }
    }
  }
  std::string reduction(const std::string& type, const std::string& name) {
    if (type == "bool") return name + (below(2) == 0 ? ":And" : ":Or");
    return name +
           std::vector<std::string>{":Add", ":Max", ":Min", ":Mul"}[static_cast<size_t>(below(4))];
  }
  void convert(std::string* out) {
    const int n = below(2) == 0 ? 1 : lanes_;
    const Value x = pick(out, below(2) == 0 ? main_ : other_, n);
    const std::string to = below(5) == 0 ? "bool" : below(2) == 0 ? main_ : other_;
    add(out, "Cast", to, n, x.axes, x.label);
  }
  // A register, a loop that changes it along an axis or not, under a condition or not.
  void loop(std::string* out) {
    const int kept_busy = busy_;
    const Value start = pick(out, main_, lanes_);
    const int axes = start.axes | (below(2) == 0 ? kU : 0);
    const Value acc = add(out, "Acc", main_, lanes_, axes, below(2) == 0 ? start.label : "1");
    const size_t kept = values_.size();
    const std::string index = label();
    *out += index + " = Loop " + (below(3) == 0 ? "i32 " : "") + std::to_string(below(3)) + " " +
            std::to_string(3 + below(5)) + " " + std::to_string(1 + below(3)) + "\n";
    loops_.push_back(index);
    for (int i = below(4); i > 0; --i) arithmetic(out);
    const bool each = (axes & kU) != 0 && below(2) == 0;
    const Value x = pick(out, main_, lanes_, axes & (kU | kV), 0);
    if (each) *out += "Each u\n";
    const bool squares = (!real(main_) || fused_) && below(2) == 0;
    const Value sum = add(out, squares ? "MulAcc" : "Add", main_, lanes_, x.axes | axes,
                          x.label + " " + (squares ? x.label + " " : "") + acc.label);
    *out += "Set " + acc.label + " " + sum.label + "\n";
    if (each) *out += "End\n";
    *out += "End\n";
    loops_.pop_back();
    values_.resize(kept);
    busy_ = kept_busy;
  }
  void branch(std::string* out) {
    const Value acc = add(out, "Acc", main_, lanes_, 0, "2");
    const Value test = condition(out, 1, 0);
    if (test.axes != 0) return;
    const size_t kept = values_.size();
    *out += "If " + test.label + "\n";
    const Value x = pick(out, main_, lanes_, 0);
    *out += "Set " + acc.label + " " + x.label + "\nEnd\n";
    values_.resize(kept);
  }

  std::string task() {
    task_ = label();
    std::string out = task_ + " = Loop task 0 " + std::to_string(tasks_) + " 1\n";
    for (int i = 4 + below(10); i > 0; --i) {
      const int kind = below(12);
      if (kind < 6) arithmetic(&out);
      if (kind == 6 || kind == 7) lanes(&out);
      if (kind == 8) convert(&out);
      if (kind == 9) loop(&out);
      if (kind == 10) branch(&out);
      if (kind == 11) load(&out, main_, lanes_);
    }
    const size_t count = values_.size();
    for (size_t i = count - std::min<size_t>(count, 6); i < count; ++i) store(&out, values_[i]);
    return out + "End\n";
  }
  void store(std::string* out, const Value& v) {
    int64_t room = v.lanes;
    std::string form = "%" + std::to_string(5000 + results_.size());
    std::string axes;
    for (int i = 0; i < 3; ++i) {
      if ((v.axes >> i & 1) == 0) continue;
      axes += " + " + std::to_string(room) + "*" + "uvw"[i];
      room *= sizes_[static_cast<size_t>(i)];
    }
    form += " + " + std::to_string(room) + "*" + task_ + axes;
    results_.push_back({v.type, room * tasks_});
    *out += "Store" + braces(v.axes) + " " + form + ", " + v.label;
    if (v.lanes > 1 && below(4) == 0) *out += " first " + std::to_string(1 + below(v.lanes));
    if (below(6) == 0) *out += " stream";
    *out += "\n";
  }

  std::mt19937_64 random_;
  bool fused_;
  int lanes_, tasks_, labels_ = 0, busy_ = 0;
  size_t slots_ = 0;
  std::vector<int> sizes_;
  std::string main_, other_, task_;
  std::vector<std::string> loops_;
  std::vector<Value> values_;
  std::vector<Result> results_;
};

}  // namespace aster::codegen::program::tests
