// Nodes built by name as tensors: every kind that can be built computes what the builders of
// tensors do, and whatever numbers come in, the answer is a status.
#include "aster_ml/graph.h"

#include <bit>
#include <cmath>
#include <map>
#include <random>
#include <set>

#include "tensor/world.h"

namespace aster::tensor::test {
namespace {

using Uop = const aster_ml_uop*;
using Words = std::vector<int64_t>;

class Nodes {
 public:
  explicit Nodes(const aster_ml_context* context) : context_(context) {}
  ~Nodes() {
    for (Uop each : all) EXPECT_EQ(aster_ml_uop_release(context_, each), 0) << message();
  }
  Nodes(const Nodes&) = delete;
  Nodes& operator=(const Nodes&) = delete;

  int32_t init(Uop* out, const char* op, const std::vector<Uop>& sources, const Words& arguments,
               const Shape& shape, int32_t dtype) {
    aster_ml_uop_options o{};
    o.struct_size = sizeof(o);
    o.op = op;
    o.dtype = dtype;
    o.sources = sources.data();
    o.source_count = sources.size();
    o.arguments = arguments.data();
    o.argument_count = arguments.size();
    o.shape = shape.data();
    o.ndim = shape.size();
    const int32_t code = aster_ml_uop_init(out, context_, &o);
    if (code == 0) all.push_back(*out);
    return code;
  }
  Uop make(const char* op, const std::vector<Uop>& sources, const Words& arguments = {},
           const Shape& shape = {}, int32_t dtype = 0) {
    Uop out = nullptr;
    EXPECT_EQ(init(&out, op, sources, arguments, shape, dtype), 0) << op << ": " << message();
    return out;
  }
  Uop of(const T& x) {
    Uop out = nullptr;
    EXPECT_EQ(aster_ml_lazy_to_uop(&out, x), 0) << message();
    all.push_back(out);
    return out;
  }
  std::vector<float> floats(Uop node) {
    T out;
    EXPECT_EQ(aster_ml_lazy_from_uop(out, context_, node), 0) << message();
    return out.floats();
  }

  std::vector<Uop> all;

 private:
  const aster_ml_context* context_;
};

T floats_of(const World& world, const Shape& shape, int64_t first = 1) {
  T out, range;
  int64_t count = 1;
  for (int64_t d : shape) count *= d;
  EXPECT_EQ(aster_ml_lazy_arange(range, world, first, first + count, 1, ASTER_ML_DTYPE_FLOAT32), 0);
  T scaled, tenth;
  EXPECT_EQ(aster_ml_lazy_number(tenth, world, 0.1), 0);
  EXPECT_EQ(aster_ml_lazy_mul(scaled, range, tenth), 0);
  EXPECT_EQ(aster_ml_lazy_reshape(out, scaled, shape.size(), shape.data()), 0) << message();
  aster_ml_lazy* all[] = {out};
  EXPECT_EQ(aster_ml_lazy_realize(all, 1), 0) << message();
  return out;
}

void expect_near(const std::vector<float>& a, const std::vector<float>& b, const char* what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-5f) << what << " " << i;
}

// Composites by name are the operations of tensors.
TEST(GraphNodes, CallsByName) {
  World world;
  Nodes n(world);
  T x = floats_of(world, {2, 4, 5, 5}), w = floats_of(world, {4, 2, 3, 3}), y;
  T a = floats_of(world, {2, 3}), b = floats_of(world, {3, 4});
  const Uop nx = n.of(x), nw = n.of(w), na = n.of(a), nb = n.of(b);

  OK(aster_ml_lazy_matmul(y, a, b));
  expect_near(n.floats(n.make("Call:Matmul", {na, nb})), y.floats(), "Matmul");
  const int32_t stride[] = {2, 1}, pad[] = {1, 1, 0, 2}, dilation[] = {1, 1};
  T conv, pooled;
  aster_ml_conv2d_options o{};
  o.struct_size = sizeof(o);
  o.groups = 2;
  for (int i = 0; i < 2; ++i) o.stride[i] = stride[i], o.dilation[i] = dilation[i];
  for (int i = 0; i < 4; ++i) o.padding[i] = pad[i];
  OK(aster_ml_lazy_conv2d(conv, x, w, nullptr, &o));
  expect_near(n.floats(n.make("Call:Conv2d", {nx, nw}, {2, 2, 1, 1, 1, 0, 2, 1, 1})), conv.floats(),
              "Conv2d");
  T soft;
  OK(aster_ml_lazy_softmax(soft, a, 1));
  expect_near(n.floats(n.make("Call:Softmax", {na}, {1})), soft.floats(), "Softmax");
  OK(aster_ml_lazy_log_softmax(pooled, a, 0));
  expect_near(n.floats(n.make("Call:LogSoftmax", {na}, {0})), pooled.floats(), "LogSoftmax");
  T total;
  const int64_t axes[] = {0, 1};
  OK(aster_ml_lazy_logsumexp(total, a, 2, axes, 1));
  expect_near(n.floats(n.make("Call:LogSumExp", {na}, {0, 1})), total.floats(), "LogSumExp");
  T sig;
  OK(aster_ml_lazy_sigmoid(sig, a));
  expect_near(n.floats(n.make("Call:Sigmoid", {na})), sig.floats(), "Sigmoid");

  for (const auto& [op, sources, arguments] :
       std::vector<std::tuple<const char*, std::vector<Uop>, Words>>{
           {"Call:Matmul", {na, na}, {}},
           {"Call:Matmul", {na}, {}},
           {"Call:ExactMatmul", {na, nb}, {}},
           {"Call:Conv2d", {nx, nw}, {3, 2, 1, 1, 1, 0, 2, 1, 1}},
           {"Call:Conv2d", {nx, nw}, {2, 0, 1, 1, 1, 0, 2, 1, 1}},
           {"Call:Conv2d", {nx, nw}, {2, 2, 1, INT64_MAX, 1, 0, 2, 1, 1}},
           {"Call:Conv2d", {nx, nw}, {2, 2, 1, 1, 1, 0, 2, 9, 1}},
           {"Call:Softmax", {na}, {2}},
           {"Call:Softmax", {na, na}, {0}},
           {"Call:LogSumExp", {na}, {1, 0}},
           {"Call:LayerNorm", {na, na}, {1}},
           {"Call:CrossEntropy", {na, na}, {0}},
           {"Call:BatchNorm", {na, na, na, na, na}, {}},
           {"Call:MaxPool2d", {na}, {1, 1, 1, 1, 0, 0, 0, 0, 0, 1}},
       }) {
    Uop out = nullptr;
    EXPECT_EQ(n.init(&out, op, sources, arguments, {}, 0), ASTER_ML_ARGUMENT) << op;
  }
}

// Gradients go through nodes as through what builders made: both are the same graph.
TEST(GraphNodes, GradientsThroughCalls) {
  World world;
  Nodes n(world);
  T a = floats_of(world, {2, 3}), b = floats_of(world, {3, 4}), y, loss, built, sums;
  OK(aster_ml_lazy_from_uop(y, world, n.make("Call:Matmul", {n.of(a), n.of(b)})));
  OK(aster_ml_lazy_sum(loss, y, 0, nullptr, 0));
  const aster_ml_lazy* targets[] = {a, b};
  aster_ml_lazy found[2] = {};
  OK(aster_ml_gradient(found, loss, targets, 2, nullptr));
  T da, db;
  da.x = found[0], db.x = found[1];
  const std::vector<float> va = a.floats(), vb = b.floats(), ga = da.floats(), gb = db.floats();
  for (size_t i = 0; i < 6; ++i) {  // d sum(ab) / d a[i, k] = sum_j b[k, j]
    float row = 0, column = 0;
    for (size_t j = 0; j < 4; ++j) row += vb[i % 3 * 4 + j];
    for (size_t j = 0; j < 2; ++j) column += va[j * 3 + i / 2];
    EXPECT_NEAR(ga[i], row, 1e-5f);
    EXPECT_NEAR(gb[i / 2 * 4], column, 1e-5f);
  }
}

// Numbers that nobody has checked: whatever is built is refused or computed.
TEST(GraphNodes, RandomNodesGiveStatuses) {
  World world;
  Nodes n(world);
  constexpr const char* kOps[] = {
      "Add",     "Mul",         "Max",          "Where",       "CmpLt",          "Exp",
      "Neg",     "Not",         "And",          "Shl",         "Reshape",        "Expand",
      "Permute", "Flip",        "Slice",        "Pad",         "Window",         "Unwindow",
      "Cat",     "Cast",        "Bitcast",      "Reduce:Add",  "Reduce:Max",     "Contiguous",
      "Detach",  "Gather",      "Scatter",      "Scatter:Add", "Scan:Add",       "ScanPlace:Max",
      "LogScan", "Argsort",     "Sort",         "Assign",      "After",          "Iota",
      "Const",   "Param",       "Range",        "Load",        "Store",          "Fold:Add",
      "Sink",    "Call:Matmul", "Call:Softmax", "Call:Conv2d", "Call:MaxPool2d", "Call:LogSumExp",
      "Dot",     "Wide",        "MulAcc",       "Threefry"};
  constexpr int32_t kDtypes[] = {0,
                                 ASTER_ML_DTYPE_BOOL,
                                 ASTER_ML_DTYPE_INT8,
                                 ASTER_ML_DTYPE_UINT64,
                                 ASTER_ML_DTYPE_INT32,
                                 ASTER_ML_DTYPE_FLOAT16,
                                 ASTER_ML_DTYPE_FLOAT32,
                                 ASTER_ML_DTYPE_FLOAT64,
                                 ASTER_ML_DTYPE_WEAKINT,
                                 ASTER_ML_DTYPE_WEAKFLOAT,
                                 ASTER_ML_DTYPE_TBB16,
                                 99,
                                 -1};
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  const auto below = [&](size_t count) { return static_cast<size_t>(random() % count); };
  T x = floats_of(world, {2, 3}), y = floats_of(world, {2, 3});
  T z;
  OK(aster_ml_lazy_cast(z, y, ASTER_ML_DTYPE_INT32));
  for (const T* each : {&x, &y, &z}) n.of(*each);
  size_t built = 0, computed = 0;
  for (int i = 0; i < 30000; ++i) {
    std::vector<Uop> sources(below(10) == 0 ? below(6) : 1 + below(2));
    for (Uop& source : sources) source = n.all[below(2) == 0 ? below(n.all.size()) : below(3)];
    Words arguments(below(2) == 0 ? 0 : below(4) != 0 ? 1 + below(2) : below(10));
    for (int64_t& word : arguments) {
      word = below(40) == 0 ? static_cast<int64_t>(random()) : static_cast<int64_t>(below(4)) - 1;
    }
    Shape shape(below(2) == 0 ? 2 : below(5));
    for (int64_t& d : shape) {
      d = below(60) == 0 ? static_cast<int64_t>(random()) : static_cast<int64_t>(below(5));
    }
    if (below(3) != 0) shape = {2, 3};
    const int32_t dtype = kDtypes[below(2) * below(std::size(kDtypes))];
    Uop made = nullptr;
    const int32_t code =
        n.init(&made, kOps[below(std::size(kOps))], sources, arguments, shape, dtype);
    ASSERT_NE(code, ASTER_ML_INTERNAL) << message();
    if (code != 0) continue;
    ++built;
    T out;
    const int32_t taken = aster_ml_lazy_from_uop(out, world, made);
    ASSERT_NE(taken, ASTER_ML_INTERNAL) << aster_ml_uop_op(made) << ": " << message();
    if (taken != 0 || aster_ml_lazy_count(out) > 4096) continue;
    aster_ml_lazy* all[] = {out};
    const int32_t done = aster_ml_lazy_realize(all, 1);
    ASSERT_NE(done, ASTER_ML_INTERNAL) << aster_ml_uop_op(made) << ": " << message();
    computed += done == 0 ? 1 : 0;
  }
  EXPECT_GT(built, 1000u);
  EXPECT_GT(computed, 100u);
}

// ---- Every kind ----

struct Kind {
  const char* op;
  std::vector<std::string> sources;  // of the names below
  Words arguments;
  Shape shape;
  int32_t dtype;
  std::vector<float> want;
};

std::vector<Kind> all_kinds() {
  const auto f = [](auto function) {
    return std::vector<float>{function(-1.5f), function(0.25f), function(2.5f)};
  };
  const auto positive = [](auto function) {
    return std::vector<float>{function(0.5f), function(1.0f), function(4.0f)};
  };
  const int64_t three = std::bit_cast<int64_t>(3.0);
  return {
      {"Const", {}, {three}, {2}, ASTER_ML_DTYPE_FLOAT32, {3, 3}},
      {"Iota", {}, {}, {3}, ASTER_ML_DTYPE_INT32, {0, 1, 2}},
      {"Reshape", {"x"}, {}, {3, 1}, 0, {-1.5f, 0.25f, 2.5f}},
      {"Expand", {"one"}, {}, {2}, 0, {2.5f, 2.5f}},
      {"Permute", {"grid"}, {1, 0}, {}, 0, {-1.5f, 0.5f, 0.25f, 1, 2.5f, 4}},
      {"Flip", {"x"}, {1}, {}, 0, {2.5f, 0.25f, -1.5f}},
      {"Slice", {"x"}, {1, 1}, {2}, 0, {0.25f, 2.5f}},
      {"Pad", {"x"}, {1, 0, 0, three}, {}, 0, {3, -1.5f, 0.25f, 2.5f}},
      {"Window", {"p"}, {0, 1, 1, 2}, {}, 0, {0.5f, 1, 1, 4}},
      {"Unwindow", {"pairs"}, {0, 1, 1, 3}, {}, 0, {-1.5f, 0, 0.25f, 0.25f, 0, 2.5f}},
      {"Cat", {"x", "p"}, {0}, {}, 0, {-1.5f, 0.25f, 2.5f, 0.5f, 1, 4}},
      {"Cast", {"x"}, {}, {}, ASTER_ML_DTYPE_INT32, {-1, 0, 2}},
      {"Bitcast", {"p"}, {}, {}, ASTER_ML_DTYPE_INT32, {0x3f000000, 0x3f800000, 0x40800000}},
      {"Reduce:Add", {"x"}, {0}, {}, 0, {1.25f}},
      {"Reduce:Mul", {"p"}, {0}, {}, 0, {2}},
      {"Reduce:Max", {"x"}, {0}, {}, 0, {2.5f}},
      {"Reduce:Min", {"x"}, {0}, {}, 0, {-1.5f}},
      {"Reduce:And", {"yes"}, {0}, {}, 0, {0}},
      {"Reduce:Or", {"yes"}, {0}, {}, 0, {1}},
      {"Contiguous", {"x"}, {}, {}, 0, {-1.5f, 0.25f, 2.5f}},
      {"Detach", {"x"}, {}, {}, 0, {-1.5f, 0.25f, 2.5f}},
      {"Gather", {"x", "at"}, {-1}, {3}, 0, {2.5f, -1.5f, 0.25f}},
      {"Scatter", {"x", "p", "at"}, {-1, -1}, {}, 0, {1, 4, 0.5f}},
      {"Scatter:Add", {"x", "p", "at"}, {-1}, {}, 0, {-0.5f, 4.25f, 3}},
      {"Scan:Add", {"x"}, {0, 0}, {}, 0, {-1.5f, -1.25f, 1.25f}},
      {"ScanPlace:Max", {"x"}, {0}, {}, 0, {0, 1, 2}},
      {"LogScan", {"p"}, {0, 0}, {}, 0, {0.5f, 1.474077f, 4.0769467f}},
      {"Argsort", {"x"}, {0, 1}, {3}, 0, {2, 1, 0}},
      {"Sort", {"x"}, {0, 1}, {}, 0, {2.5f, 0.25f, -1.5f}},
      {"Assign", {"x", "x"}, {}, {}, 0, {-1.5f, 0.25f, 2.5f}},
      {"After", {"x", "write"}, {}, {}, 0, {-1.5f, 0.25f, 2.5f}},
      {"Neg", {"x"}, {}, {}, 0, {1.5f, -0.25f, -2.5f}},
      {"Not", {"i"}, {}, {}, 0, {-8, 6, -6}},
      {"Abs", {"x"}, {}, {}, 0, {1.5f, 0.25f, 2.5f}},
      {"Recip", {"p"}, {}, {}, 0, {2, 1, 0.25f}},
      {"Sqrt", {"p"}, {}, {}, 0, positive([](float v) { return std::sqrt(v); })},
      {"Exp", {"x"}, {}, {}, 0, f([](float v) { return std::exp(v); })},
      {"Exp2", {"x"}, {}, {}, 0, f([](float v) { return std::exp2(v); })},
      {"Log", {"p"}, {}, {}, 0, positive([](float v) { return std::log(v); })},
      {"Log2", {"p"}, {}, {}, 0, {-1, 0, 2}},
      {"Sin", {"x"}, {}, {}, 0, f([](float v) { return std::sin(v); })},
      {"Cos", {"x"}, {}, {}, 0, f([](float v) { return std::cos(v); })},
      {"Tanh", {"x"}, {}, {}, 0, f([](float v) { return std::tanh(v); })},
      {"Erf", {"x"}, {}, {}, 0, f([](float v) { return std::erf(v); })},
      {"Trunc", {"x"}, {}, {}, 0, {-1, 0, 2}},
      {"Floor", {"x"}, {}, {}, 0, {-2, 0, 2}},
      {"Ceil", {"x"}, {}, {}, 0, {-1, 1, 3}},
      {"Round", {"x"}, {}, {}, 0, {-2, 0, 2}},
      {"Add", {"x", "p"}, {}, {}, 0, {-1, 1.25f, 6.5f}},
      {"Sub", {"x", "p"}, {}, {}, 0, {-2, -0.75f, -1.5f}},
      {"Mul", {"x", "p"}, {}, {}, 0, {-0.75f, 0.25f, 10}},
      {"Div", {"x", "p"}, {}, {}, 0, {-3, 0.25f, 0.625f}},
      {"Max", {"x", "p"}, {}, {}, 0, {0.5f, 1, 4}},
      {"Min", {"x", "p"}, {}, {}, 0, {-1.5f, 0.25f, 2.5f}},
      {"CDiv", {"i", "j"}, {}, {}, 0, {3, -2, -1}},
      {"CMod", {"i", "j"}, {}, {}, 0, {1, -1, 1}},
      {"FloorDiv", {"i", "j"}, {}, {}, 0, {3, -3, -2}},
      {"FloorMod", {"i", "j"}, {}, {}, 0, {1, 2, -3}},
      {"Pow", {"p", "x"}, {}, {}, 0, {2.828427f, 1, 32}},
      {"And", {"i", "j"}, {}, {}, 0, {2, 1, 4}},
      {"Or", {"i", "j"}, {}, {}, 0, {7, -5, -3}},
      {"Xor", {"i", "j"}, {}, {}, 0, {5, -6, -7}},
      {"Shl", {"i", "at"}, {}, {}, 0, {28, -7, 10}},
      {"Shr", {"i", "at"}, {}, {}, 0, {1, -7, 2}},
      {"PairDot", {"i", "j"}, {}, {}, 0, {14, -21, -20}},
      {"QuadDot", {"i", "j", "j"}, {}, {}, 0, {16, 750, -24}},
      {"CmpLt", {"x", "p"}, {}, {}, 0, {1, 1, 1}},
      {"CmpLe", {"p", "x"}, {}, {}, 0, {0, 0, 0}},
      {"CmpEq", {"x", "x"}, {}, {}, 0, {1, 1, 1}},
      {"CmpNe", {"i", "j"}, {}, {}, 0, {1, 1, 1}},
      {"Threefry", {"bits", "bits"}, {}, {}, 0, {}},
      {"Where", {"yes", "x", "p"}, {}, {}, 0, {-1.5f, 1, 2.5f}},
      {"MulAcc", {"x", "p", "p"}, {}, {}, 0, {-0.25f, 1.25f, 14}},
  };
}

// Every kind of node that tensors are made of is built by its name, walked, and computed.
TEST(GraphNodes, EveryKindIsComputed) {
  World world;
  Nodes n(world);
  const auto real = [&](const std::vector<float>& values) {
    T out;
    const int64_t count = static_cast<int64_t>(values.size());
    EXPECT_EQ(aster_ml_lazy_from(out, world, values.data(), ASTER_ML_DTYPE_FLOAT32, 1, &count), 0);
    return n.of(out);
  };
  const auto cast = [&](Uop x, int32_t dtype) { return n.make("Cast", {x}, {}, {}, dtype); };
  std::map<std::string, Uop> given = {{"x", real({-1.5f, 0.25f, 2.5f})},
                                      {"p", real({0.5f, 1, 4})},
                                      {"i", cast(real({7, -7, 5}), ASTER_ML_DTYPE_INT32)},
                                      {"j", cast(real({2, 3, -4}), ASTER_ML_DTYPE_INT32)},
                                      {"at", cast(real({2, 0, 1}), ASTER_ML_DTYPE_INT32)},
                                      {"bits", cast(real({1, 2, 3}), ASTER_ML_DTYPE_UINT64)},
                                      {"yes", cast(real({1, 0, 1}), ASTER_ML_DTYPE_BOOL)}};
  given["one"] = n.make("Reduce:Max", {given["x"]}, {0});
  given["pairs"] = n.make("Window", {given["x"]}, {0, 1, 1, 2});
  given["grid"] = n.make("Reshape", {n.make("Cat", {given["x"], given["p"]}, {0})}, {}, {2, 3});
  given["write"] = n.make("Assign", {real({0, 0, 0}), given["p"]});
  // Memory, kernels of others, bodies and several results come of tensors; sums that are exact are
  // of dtypes that have them; the last are of kernels, which run by programs.
  std::set<std::string> seen = {"Buffer", "Foreign", "Call",  "Tuple", "Item", "Wide",  "Dot",
                                "Param",  "Range",   "Store", "Load",  "Fold", "Carry", "Sink"};
  for (const Kind& kind : all_kinds()) {
    std::vector<Uop> sources;
    for (const std::string& name : kind.sources) sources.push_back(given.at(name));
    const Uop made = n.make(kind.op, sources, kind.arguments, kind.shape, kind.dtype);
    ASSERT_NE(made, nullptr) << kind.op;
    seen.insert(std::string(kind.op).substr(0, std::string(kind.op).find(':')));
    size_t count = 0;
    OK(aster_ml_uop_walk(nullptr, &count, 0, world, made));
    EXPECT_GT(count, 0u);
    T out, wide;
    OK(aster_ml_lazy_from_uop(out, world, made));
    OK(aster_ml_lazy_cast(wide, out, ASTER_ML_DTYPE_FLOAT32));
    const std::vector<float> got = wide.floats();
    if (kind.want.empty()) continue;
    ASSERT_EQ(got.size(), kind.want.size()) << kind.op;
    for (size_t i = 0; i < got.size(); ++i)
      EXPECT_NEAR(got[i], kind.want[i], 2e-6f * std::abs(kind.want[i]) + 1e-6f) << kind.op << i;
  }
#define OP(name, ...) EXPECT_EQ(seen.count(#name), 1u) << #name;
#define ALU(name, ...) EXPECT_EQ(seen.count(#name), 1u) << #name;
#include "uop/ops.def"
}

}  // namespace
}  // namespace aster::tensor::test
