// Frozen programs: what is compiled apart from the library computes the engine's bits, links
// nothing but libc, and is all there or not at all.
#include "aster_ml/freeze.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "aster_ml/functions.h"
#include "aster_ml/indexing.h"
#include "aster_ml/kernel.h"
#include "aster_ml/linalg.h"
#include "aster_ml/spatial.h"
#include "aster_ml/tensor.h"

namespace {

namespace fs = std::filesystem;
using Floats = std::vector<float>;

std::string message() {
  aster_ml_error error;
  aster_ml_error_last(&error);
  return error.message;
}
#define OK(call) ASSERT_EQ(call, ASTER_ML_OK) << message()
#define EXPECT_OK(call) EXPECT_EQ(call, ASTER_ML_OK) << message()

// Exit status of a shell's line.
int shell(const std::string& line) {
  const int status = std::system(line.c_str());  // NOLINT: of the test's own
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}
std::string output_of(const std::string& line) {
  std::string out;
  FILE* const pipe = popen(line.c_str(), "r");
  for (int c = fgetc(pipe); c != EOF; c = fgetc(pipe)) out += static_cast<char>(c);
  pclose(pipe);
  return out;
}
bool has(const char* program) {
  return shell(std::string("command -v ") + program + " >/dev/null 2>&1") == 0;
}
std::string text_of(const std::string& path) {
  std::ifstream file(path);
  std::stringstream out;
  out << file.rdbuf();
  return out.str();
}

class Freeze : public testing::Test {
 protected:
  void SetUp() override {
    begin(0);
    folder = fs::temp_directory_path() / ("aster_freeze_test_" + std::to_string(getpid()));
    fs::create_directories(folder);
    if (!has("cc")) GTEST_SKIP() << "no C compiler";
  }
  void TearDown() override {
    end();
    fs::remove_all(folder);
  }
  // Another context, of vectors that wide.
  void begin(int32_t vector_bytes) {
    end();
    aster_ml_context_options options{};
    options.struct_size = sizeof(options);
    options.threads = 1;
    options.vector_bytes = vector_bytes;
    EXPECT_OK(aster_ml_context_init(&context, &options));
  }
  void end() {
    for (aster_ml_lazy* each : handles) {
      aster_ml_lazy_free(each);
      delete each;
    }
    handles.clear();
    EXPECT_EQ(aster_ml_context_free(&context), 0);
  }
  aster_ml_lazy* handle() {
    handles.push_back(new aster_ml_lazy{});
    return handles.back();
  }
  aster_ml_lazy* data(const Floats& values, const std::vector<int64_t>& shape) {
    aster_ml_lazy* out = handle();
    EXPECT_OK(aster_ml_lazy_from(out, &context, values.data(), ASTER_ML_DTYPE_FLOAT32, shape.size(),
                                 shape.data()));
    return out;
  }
  static Floats noise(size_t count, unsigned seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal(0, 0.3f);
    Floats out(count);
    for (float& x : out) x = normal(random);
    return out;
  }
  aster_ml_lazy* weights(const std::vector<int64_t>& shape, unsigned seed) {
    size_t count = 1;
    for (const int64_t dim : shape) count *= static_cast<size_t>(dim);
    return data(noise(count, seed), shape);
  }
  aster_ml_boundary boundary(const std::vector<aster_ml_lazy*>& in,
                             const std::vector<aster_ml_lazy*>& out) {
    inputs = in, outputs = out;
    aster_ml_boundary b{};
    b.struct_size = sizeof(b);
    b.inputs = inputs.data(), b.input_count = in.size();
    b.outputs = outputs.data(), b.output_count = out.size();
    return b;
  }
  std::string path(const std::string& name) const { return (folder / name).string(); }
  static aster_ml_freeze_options options() {
    aster_ml_freeze_options out{};
    out.struct_size = sizeof(out);
    return out;
  }
  static aster_ml_freeze_options for_cpus(const std::vector<const char*>& targets) {
    aster_ml_freeze_options out = options();
    out.targets = targets.data();
    out.target_count = targets.size();
    return out;
  }

  // softmax(relu(x w + b) v), of 4 rows: 37 numbers to 10.
  aster_ml_lazy* mlp(aster_ml_lazy* x) {
    aster_ml_lazy *a = handle(), *b = handle(), *c = handle(), *d = handle(), *y = handle();
    EXPECT_OK(aster_ml_lazy_matmul(a, x, weights({37, 64}, 1)));
    EXPECT_OK(aster_ml_lazy_add(b, a, weights({64}, 2)));
    EXPECT_OK(aster_ml_lazy_relu(c, b));
    EXPECT_OK(aster_ml_lazy_matmul(d, c, weights({64, 10}, 3)));
    EXPECT_OK(aster_ml_lazy_softmax(y, d, 1));
    return y;
  }
  // Two convolutions, the second of which skips one, and a mean.
  aster_ml_lazy* convolutions(aster_ml_lazy* x) {
    aster_ml_conv2d_options o{};
    o.struct_size = sizeof(o);
    for (int32_t& p : o.padding) p = 1;
    aster_ml_lazy *a = handle(), *b = handle(), *c = handle(), *d = handle(), *e = handle(),
                  *y = handle();
    EXPECT_OK(aster_ml_lazy_conv2d(a, x, weights({8, 3, 3, 3}, 4), weights({8}, 5), &o));
    EXPECT_OK(aster_ml_lazy_relu(b, a));
    EXPECT_OK(aster_ml_lazy_conv2d(c, b, weights({8, 8, 3, 3}, 6), nullptr, &o));
    EXPECT_OK(aster_ml_lazy_add(d, c, b));
    EXPECT_OK(aster_ml_lazy_relu(e, d));
    const int64_t axes[] = {2, 3};
    EXPECT_OK(aster_ml_lazy_mean(y, e, 2, axes, 0));
    return y;
  }
  // Causal attention of a sequence with itself, normalised before.
  aster_ml_lazy* attention(aster_ml_lazy* x) {
    const int64_t last[] = {-1}, heads[] = {1, 12, 4, 8};
    aster_ml_lazy *n = handle(), *y = handle();
    EXPECT_OK(aster_ml_lazy_layernorm(n, x, 1, last, 1e-5));
    aster_ml_lazy* of[3];
    for (unsigned i = 0; i < 3; ++i) {
      aster_ml_lazy *p = handle(), *r = handle();
      of[i] = handle();
      EXPECT_OK(aster_ml_lazy_matmul(p, n, weights({32, 32}, 7 + i)));
      EXPECT_OK(aster_ml_lazy_reshape(r, p, 4, heads));
      EXPECT_OK(aster_ml_lazy_transpose(of[i], r, 1, 2));
    }
    EXPECT_OK(
        aster_ml_lazy_scaled_dot_product_attention(y, of[0], of[1], of[2], nullptr, 0, 1, 0, 0));
    return y;
  }

  // What the engine computes of a step of one input and output, from its own program.
  Floats engine(const aster_ml_boundary& b, const Floats& input, int runs = 1) {
    size_t size = 0;
    EXPECT_OK(aster_ml_program_to_bytes(nullptr, &size, 0, &context, &b, 0));
    std::vector<char> bytes(size);
    EXPECT_OK(aster_ml_program_to_bytes(bytes.data(), &size, size, &context, &b, 0));
    aster_ml_program program{};
    EXPECT_OK(aster_ml_program_from_bytes(&program, &context, bytes.data(), size));
    aster_ml_program_array in{}, result{};
    in.struct_size = result.struct_size = sizeof(in);
    EXPECT_OK(aster_ml_program_get_array(&in, &program, ASTER_ML_PROGRAM_INPUTS, 0));
    EXPECT_OK(aster_ml_program_get_array(&result, &program, ASTER_ML_PROGRAM_OUTPUTS, 0));
    Floats given = input, out(result.bytes / 4);
    aster_ml_tensor x = described(given.data(), in), y = described(out.data(), result);
    for (int i = 0; i < runs; ++i) EXPECT_OK(aster_ml_program_run(&program, nullptr, &x, 1, &y, 1));
    aster_ml_tensor_free(&x);
    aster_ml_tensor_free(&y);
    EXPECT_OK(aster_ml_program_free(&program));
    return out;
  }
  aster_ml_tensor described(float* memory, const aster_ml_program_array& array) {
    aster_ml_tensor out{};
    const aster_ml_buffer buffer = {memory, array.bytes, array.dtype, 0};
    const std::vector<size_t> shape(array.shape, array.shape + array.ndim);
    EXPECT_OK(aster_ml_tensor_from_buffer(&out, &context, &buffer, 0, shape.size(), shape.data(),
                                          nullptr));
    return out;
  }

  // Runs an executable on the bytes of an input.
  Floats execute(const std::string& program, const Floats& input, size_t count) {
    std::ofstream(path("in.raw"), std::ios::binary)
        .write(reinterpret_cast<const char*>(input.data()),
               static_cast<std::streamsize>(input.size() * 4));
    fs::remove(path("out.raw"));
    EXPECT_EQ(shell(program + " " + path("in.raw") + " " + path("out.raw")), 0) << program;
    Floats out(count);
    std::ifstream(path("out.raw"), std::ios::binary)
        .read(reinterpret_cast<char*>(out.data()), static_cast<std::streamsize>(count * 4));
    return out;
  }
  // A C program around net.h, whose input and output are files.
  std::string client(const std::string& begin = "net_init(memory)") {
    std::ofstream(path("main.c"))
        << "#include \"net.h\"\n#include <stdio.h>\n"
           "static _Alignas(NET_MEMORY_ALIGNMENT) char memory[NET_MEMORY_BYTES];\n"
           "static float x[NET_COUNT_input0], y[NET_COUNT_output0];\n"
           "int main(int argc, char **argv) {\n"
           "  FILE *in = fopen(argv[1], \"rb\"), *out = fopen(argv[2], \"wb\");\n"
           "  if (argc != 3 || fread(x, 1, sizeof(x), in) != sizeof(x)) return 10;\n"
           "  if (net_run(memory, x, y) != NET_MEMORY) return 11;\n"
           "  if (net_init(memory + 1) != NET_MEMORY) return 12;\n"
           "  if (" +
               begin +
               " != NET_OK) return 13;\n"
               "  if (net_run(memory, 0, y) != NET_ARGUMENT) return 14;\n"
               "  if (net_run(memory, x, y) != NET_OK) return 15;\n"
               "  net_free(memory);\n"
               "  if (net_run(memory, x, y) != NET_MEMORY) return 16;\n"
               "  fwrite(y, 1, sizeof(y), out);\n"
               "  fclose(in);\n  return fclose(out);\n}\n";
    return path("main.c");
  }

  aster_ml_context context{};
  std::vector<aster_ml_lazy*> handles, inputs, outputs;
  fs::path folder;
};

constexpr char kFlags[] =
    " -std=gnu11 -O1 -Wall -Werror -Wno-unused -Wno-psabi -ffp-contract=off -fwrapv "
    "-fno-strict-aliasing -fno-math-errno ";

TEST_F(Freeze, EveryFormComputesTheEnginesBits) {
  const Floats x = noise(4 * 37, 90);
  aster_ml_lazy* in = data(x, {4, 37});
  const aster_ml_boundary b = boundary({in}, {mlp(in)});
  const Floats want = engine(b, x);
  const std::string main = client(), exe = path("client");
  for (const char* file : {"net.o", "libnet.a", "libnet.so", "net.c"}) {
    OK(aster_ml_freeze_step(path(file).c_str(), &context, &b, nullptr)) << file;
    ASSERT_TRUE(fs::exists(path("net.h"))) << file;
    // A program in C and one object, and nothing else.
    const bool source = std::string(file) == "net.c";
    const std::string link = "cc -Werror -Wall " + main + " -I" + folder.string() + " -o " + exe +
                             " " + (source ? path("made.o") : path(file)) + " -Wl,-rpath," +
                             folder.string();
    if (source) {
      ASSERT_EQ(
          shell("cc -march=native -c" + std::string(kFlags) + path(file) + " -o " + path("made.o")),
          0);
    }
    ASSERT_EQ(shell(link), 0) << link;
    EXPECT_EQ(execute(exe, x, want.size()), want) << file;
  }
  OK(aster_ml_freeze_step(path("net").c_str(), &context, &b, nullptr));
  EXPECT_EQ(execute(path("net"), x, want.size()), want);
  // Nothing on the way stays.
  for (const auto& entry : fs::directory_iterator(folder))
    EXPECT_EQ(entry.path().string().find(".part"), std::string::npos) << entry.path();
}

// A frozen library; its code stays, as graphs hold kernels of it for longer, so no other has its
// name.
struct Library {
  explicit Library(const std::string& file)
      : handle(dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE)) {
    EXPECT_NE(handle, nullptr) << dlerror();
  }
  ~Library() { dlclose(handle); }
  template <typename Function>
  Function* function(const char* name) const {
    return reinterpret_cast<Function*>(dlsym(handle, name));
  }
  void* handle;
};

// A frozen program as a kernel of the Blaze interface is an operation of graphs, with the same
// bits.
TEST_F(Freeze, AsABlazeKernelItIsAnOperation) {
  const Floats x = noise(4 * 37, 95), other = noise(4 * 37, 96);
  aster_ml_lazy* in = data(x, {4, 37});
  const aster_ml_boundary b = boundary({in}, {mlp(in)});
  const Floats want = engine(b, x), want_other = engine(b, other);
  for (const uint32_t flags : {0u, uint32_t{ASTER_ML_FREEZE_SIDE_FILE}}) {
    aster_ml_freeze_options o = options();
    o.flags = ASTER_ML_FREEZE_KERNEL | flags;
    o.threads = flags == 0 ? 1 : 2;
    const std::string file = path(flags == 0 ? "libblaze.so" : "libside.so");
    const std::string name = flags == 0 ? "blaze" : "side";
    OK(aster_ml_freeze_step(file.c_str(), &context, &b, &o));
    const std::string header = text_of(path(name + ".h"));
    EXPECT_NE(header.find("_KERNEL_SIGNATURE \"float32[4, 37] -> float32[4, 10]\""),
              std::string::npos)
        << header;
    const Library library(file);
    auto* const make = library.function<int32_t(aster_ml_dynamic_kernel_instance*, const char*)>(
        (name + "_kernel").c_str());
    ASSERT_NE(make, nullptr);
    const std::string side = path("side.constants");
    aster_ml_dynamic_kernel_instance made{};
    ASSERT_EQ(make(&made, side.c_str()), 0);
    aster_ml_kernel kernel{};
    OK(aster_ml_kernel_from_blaze(&kernel, &context, &made, ASTER_ML_KERNEL_ARRAYS, "frozen",
                                  "float32[4, 37] -> float32[4, 10]", nullptr));
    for (const auto& [values, wanted] : {std::pair(x, want), std::pair(other, want_other)}) {
      aster_ml_lazy *given = data(values, {4, 37}), *out = handle();
      const aster_ml_lazy* const operands[] = {given};
      OK(aster_ml_kernel_apply(out, &kernel, operands, 1, 0));
      Floats got(want.size());
      OK(aster_ml_lazy_copy_out(got.data(), got.size() * 4, out));
      EXPECT_EQ(got, wanted);
    }
    OK(aster_ml_kernel_free(&kernel));
  }
}

// As others call it: moved to other memory, by several threads at once.
TEST_F(Freeze, BlazeKernelsAreMovedAndCalledByThreads) {
  const Floats x = noise(4 * 37, 97);
  aster_ml_lazy* in = data(x, {4, 37});
  const aster_ml_boundary b = boundary({in}, {mlp(in)});
  const Floats want = engine(b, x);
  aster_ml_freeze_options o = options();
  o.flags = ASTER_ML_FREEZE_KERNEL;
  OK(aster_ml_freeze_step(path("libmoved.so").c_str(), &context, &b, &o));
  const Library library(path("libmoved.so"));
  auto* const make = library.function<int32_t(aster_ml_dynamic_kernel_instance*)>("moved_kernel");
  ASSERT_NE(make, nullptr);
  EXPECT_EQ(make(nullptr), -4);
  aster_ml_dynamic_kernel_instance made{};
  ASSERT_EQ(make(&made), 0);
  std::vector<char> moved(made.kernel_size);
  std::memcpy(moved.data(), made.kernel, made.kernel_size);
  std::memset(static_cast<void*>(made.kernel), 255, made.kernel_size);
  made.free_func(made.kernel);
  auto* const kernel = reinterpret_cast<aster_ml_kernel_data_prefix*>(moved.data());
  const auto run = reinterpret_cast<aster_ml_arrays>(kernel->function);
  std::vector<Floats> results(8, Floats(want.size()));
  std::vector<std::thread> threads;
  for (Floats& result : results) {
    threads.emplace_back([&] {
      char* const dst[] = {reinterpret_cast<char*>(result.data())};
      const char* const src[] = {reinterpret_cast<const char*>(x.data())};
      for (int i = 0; i < 20; ++i) run(dst, src, kernel);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Floats& result : results) EXPECT_EQ(result, want);
  kernel->destructor(kernel);
  // A C program has the header, warnings and all, and links an archive by the function's name.
  // valgrind's processor has no AVX-512: code for the one that is here may not run there.
  const std::vector<const char*> target = {"x86-64"};
  if (has("valgrind")) o = for_cpus(target);
  o.flags = ASTER_ML_FREEZE_KERNEL;
  OK(aster_ml_freeze_step(path("libnet.a").c_str(), &context, &b, &o));
  std::ofstream(path("kernel.c")) << "#include \"net.h\"\n"
                                     "int main(void) {\n"
                                     "  struct net_kernel_instance made;\n"
                                     "  if (net_kernel(&made) != 0) return 1;\n"
                                     "  made.kernel->destructor(made.kernel);\n"
                                     "  made.free_func(made.kernel);\n"
                                     "  return net_kernel(0) == -NET_ARGUMENT ? 0 : 2;\n}\n";
  EXPECT_EQ(shell("cc -std=c11 -Wall -Wextra -Wpedantic -Werror " + path("kernel.c") + " " +
                  path("libnet.a") + " -o " + path("kernel")),
            0);
  EXPECT_EQ(shell(path("kernel")), 0);
  if (!has("valgrind")) return;
  EXPECT_EQ(shell("valgrind -q --leak-check=full --error-exitcode=9 " + path("kernel")), 0);
}

TEST_F(Freeze, NothingOfCppIsNeeded) {
  const Floats x = noise(4 * 37, 90);
  aster_ml_lazy* in = data(x, {4, 37});
  const aster_ml_boundary b = boundary({in}, {mlp(in)});
  OK(aster_ml_freeze_step(path("libnet.so").c_str(), &context, &b, nullptr));
  OK(aster_ml_freeze_step(path("net.o").c_str(), &context, &b, nullptr));
  const std::string needed = output_of("readelf -d " + path("libnet.so") + " | grep NEEDED");
  EXPECT_EQ(needed.find("stdc++"), std::string::npos) << needed;
  EXPECT_EQ(needed.find("aster"), std::string::npos) << needed;
  // What another program meets, and what it has to have.
  std::stringstream exported(output_of("nm -D --defined-only " + path("libnet.so")));
  size_t count = 0;
  for (std::string address, kind, name; exported >> address >> kind >> name; ++count)
    EXPECT_EQ(name.rfind("net_", 0), 0u) << name;
  EXPECT_EQ(count, 4u);
  std::stringstream undefined(output_of("nm -u " + path("net.o")));
  for (std::string kind, name; undefined >> kind >> name;)
    EXPECT_TRUE(name == "memcpy" || name == "memset" || name[0] == '_') << name;
}

TEST_F(Freeze, ConvolutionsAndAttentionComputeTheEnginesBits) {
  const Floats images = noise(2 * 3 * 17 * 19, 91), words = noise(12 * 32, 92);
  aster_ml_lazy *x = data(images, {2, 3, 17, 19}), *s = data(words, {1, 12, 32});
  const aster_ml_boundary first = boundary({x}, {convolutions(x)});
  const Floats want = engine(first, images);
  OK(aster_ml_freeze_step(path("images").c_str(), &context, &first, nullptr));
  EXPECT_EQ(execute(path("images"), images, want.size()), want);
  const aster_ml_boundary second = boundary({s}, {attention(s)});
  const Floats wanted = engine(second, words);
  OK(aster_ml_freeze_step(path("words").c_str(), &context, &second, nullptr));
  EXPECT_EQ(execute(path("words"), words, wanted.size()), wanted);
}

// What no input has to do with is computed before, and is a constant of what is left.
TEST_F(Freeze, ConstantsAreComputedOnce) {
  const Floats x = noise(64, 93);
  const auto launches = [&](bool squared) {
    aster_ml_lazy *in = data(x, {64}), *w = weights({64, 64}, 20), *a = handle(), *y = handle();
    const int64_t axis[] = {0};
    EXPECT_OK(squared ? aster_ml_lazy_matmul(a, w, w) : aster_ml_lazy_contiguous(a, w));
    aster_ml_lazy* sum = handle();
    EXPECT_OK(aster_ml_lazy_sum(sum, a, 1, axis, 0));
    EXPECT_OK(aster_ml_lazy_add(y, in, sum));
    const aster_ml_boundary b = boundary({in}, {y});
    EXPECT_OK(aster_ml_freeze_step(path("net.c").c_str(), &context, &b, nullptr));
    const std::string text = text_of(path("net.c"));
    const size_t from = text.find("struct launch launches[]");
    const std::string table = text.substr(from, text.find("};", from) - from);
    return std::count(table.begin(), table.end(), '\n') - 1;
  };
  EXPECT_EQ(launches(false), 1);
  EXPECT_EQ(launches(true), 1);
}

TEST_F(Freeze, EachCpuHasItsCode) {
  const Floats x = noise(4 * 37, 94);
  const bool wide = output_of("grep -c -w avx2 /proc/cpuinfo") != "0\n";
  struct {
    std::vector<const char*> targets;
    int32_t width;
  } cases[] = {{{"x86-64"}, 16}, {{"x86-64-v3"}, 32}, {{"x86-64-v3", "x86-64"}, 32}};
  for (const auto& one : cases) {
    if (one.width == 32 && !wide) continue;
    begin(one.width);
    aster_ml_lazy* in = data(x, {4, 37});
    const aster_ml_boundary b = boundary({in}, {mlp(in)});
    const Floats want = engine(b, x);
    const aster_ml_freeze_options o = for_cpus(one.targets);
    OK(aster_ml_freeze_step(path("net").c_str(), &context, &b, &o));
    EXPECT_EQ(execute(path("net"), x, want.size()), want) << one.targets[0];
  }
}

// Code that is wider than this CPU's is passed over, and said to be all there is.
TEST_F(Freeze, CodeForOtherCpusDoesNotRun) {
  if (output_of("grep -c -w avx512f /proc/cpuinfo") != "0\n") GTEST_SKIP() << "AVX-512 is here";
  begin(16);
  const Floats x = noise(4 * 37, 94);
  aster_ml_lazy* in = data(x, {4, 37});
  const aster_ml_boundary b = boundary({in}, {mlp(in)});
  const Floats want = engine(b, x);
  const std::vector<const char*> both = {"x86-64-v4", "x86-64"}, one = {"x86-64-v4"};
  aster_ml_freeze_options o = for_cpus(both);
  OK(aster_ml_freeze_step(path("net").c_str(), &context, &b, &o));
  EXPECT_EQ(execute(path("net"), x, want.size()), want);
  o = for_cpus(one);
  OK(aster_ml_freeze_step(path("net").c_str(), &context, &b, &o));
  EXPECT_EQ(
      shell(path("net") + " " + path("in.raw") + " " + path("out.raw") + " 2>" + path("said")), 1);
  EXPECT_NE(text_of(path("said")).find("this CPU lacks"), std::string::npos);
}

TEST_F(Freeze, Aarch64RunsUnderEmulation) {
  if (!has("aarch64-linux-gnu-gcc") || !has("qemu-aarch64")) GTEST_SKIP() << "no aarch64 here";
  begin(16);
  const Floats x = noise(4 * 37, 95);
  aster_ml_lazy* in = data(x, {4, 37});
  const aster_ml_boundary b = boundary({in}, {mlp(in)});
  const Floats want = engine(b, x);
  const std::vector<const char*> target = {"aarch64"};
  const aster_ml_freeze_options o = for_cpus(target);
  OK(aster_ml_freeze_step(path("net").c_str(), &context, &b, &o));
  EXPECT_NE(output_of("readelf -h " + path("net")).find("AArch64"), std::string::npos);
  EXPECT_EQ(execute("qemu-aarch64 -L /usr/aarch64-linux-gnu " + path("net"), x, want.size()), want);
}

// A step that assigns: each memory begins with the state that the program was frozen with.
TEST_F(Freeze, StateIsTheMemorys) {
  const Floats x = noise(256, 96);
  aster_ml_lazy *in = data(x, {256}), *w = weights({256}, 30), *sum = handle(), *y = handle(),
                *two = data({2}, {1});
  OK(aster_ml_lazy_add(sum, w, in));
  OK(aster_ml_lazy_assign(w, sum));
  OK(aster_ml_lazy_mul(y, w, two));
  const aster_ml_boundary b = boundary({in}, {y});
  const Floats once = engine(b, x), thrice = engine(b, x, 3);
  ASSERT_NE(once, thrice);
  OK(aster_ml_freeze_step(path("libnet.so").c_str(), &context, &b, nullptr));
  void* const library = dlopen(path("libnet.so").c_str(), RTLD_NOW);
  ASSERT_NE(library, nullptr) << dlerror();
  const auto init = reinterpret_cast<int32_t (*)(void*)>(dlsym(library, "net_init"));
  const auto run =
      reinterpret_cast<int32_t (*)(void*, const float*, float*)>(dlsym(library, "net_run"));
  alignas(64) static char memory[2][1 << 14];
  Floats out(256), other(256);
  ASSERT_EQ(init(memory[0]), 0);
  ASSERT_EQ(init(memory[1]), 0);
  for (int i = 0; i < 3; ++i) ASSERT_EQ(run(memory[0], x.data(), out.data()), 0);
  ASSERT_EQ(run(memory[1], x.data(), other.data()), 0);
  EXPECT_EQ(out, thrice);
  EXPECT_EQ(other, once);
  ASSERT_EQ(init(memory[0]), 0);
  ASSERT_EQ(run(memory[0], x.data(), out.data()), 0);
  EXPECT_EQ(out, once);
  dlclose(library);
}

TEST_F(Freeze, ThreadsGiveTheSameBits) {
  const Floats x = noise(512 * 256, 97);
  aster_ml_lazy *in = data(x, {512, 256}), *a = handle(), *y = handle();
  OK(aster_ml_lazy_matmul(a, in, weights({256, 256}, 40)));
  OK(aster_ml_lazy_softmax(y, a, 1));
  const aster_ml_boundary b = boundary({in}, {y});
  const Floats want = engine(b, x);
  aster_ml_freeze_options o = options();
  o.threads = 3;
  OK(aster_ml_freeze_step(path("libnet.so").c_str(), &context, &b, &o));
  void* const library = dlopen(path("libnet.so").c_str(), RTLD_NOW);
  ASSERT_NE(library, nullptr) << dlerror();
  const auto init = reinterpret_cast<int32_t (*)(void*)>(dlsym(library, "net_init"));
  const auto end = reinterpret_cast<void (*)(void*)>(dlsym(library, "net_free"));
  const auto run =
      reinterpret_cast<int32_t (*)(void*, const float*, float*)>(dlsym(library, "net_run"));
  const std::string header = text_of(path("net.h"));
  const size_t bytes = std::stoull(header.substr(header.find("MEMORY_BYTES ") + 13));
  void* const memory = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
  for (int begun = 0; begun < 3; ++begun) {
    ASSERT_EQ(init(memory), 0);
    for (int i = 0; i < 30; ++i) {
      Floats out(want.size());
      ASSERT_EQ(run(memory, x.data(), out.data()), 0);
      ASSERT_EQ(out, want);
      if (i == 15) usleep(20000);  // all sleep
    }
    end(memory);
  }
  std::free(memory);
  dlclose(library);
}

TEST_F(Freeze, ConstantsInAFileAreCheckedAndMapped) {
  const Floats x = noise(4 * 37, 98);
  aster_ml_lazy* in = data(x, {4, 37});
  const aster_ml_boundary b = boundary({in}, {mlp(in)});
  const Floats want = engine(b, x);
  aster_ml_freeze_options o = options();
  o.flags = ASTER_ML_FREEZE_SIDE_FILE;
  OK(aster_ml_freeze_step(path("net").c_str(), &context, &b, &o));
  EXPECT_EQ(execute(path("net"), x, want.size()), want);
  const std::string side = path("net.constants");
  EXPECT_GT(fs::file_size(side), 37u * 64 * 4);
  const std::string line =
      path("net") + " " + path("in.raw") + " " + path("out.raw") + " 2>/dev/null";
  std::fstream(side, std::ios::in | std::ios::out | std::ios::binary).seekp(16).put('?');
  EXPECT_EQ(shell(line), 1);  // of another program
  fs::resize_file(side, 100);
  EXPECT_EQ(shell(line), 1);
  fs::remove(side);
  EXPECT_EQ(shell(line), 1);
}

TEST_F(Freeze, TwoProgramsAreLinkedTogether) {
  const Floats x = noise(4 * 37, 99);
  aster_ml_lazy* in = data(x, {4, 37});
  const aster_ml_boundary b = boundary({in}, {mlp(in)});
  for (const char* name : {"one", "two"})
    OK(aster_ml_freeze_step(path(std::string(name) + ".o").c_str(), &context, &b, nullptr));
  std::ofstream(path("both.c"))
      << "#include \"one.h\"\n#include \"two.h\"\n#include <string.h>\n"
         "static _Alignas(64) char a[ONE_MEMORY_BYTES], b[TWO_MEMORY_BYTES];\n"
         "static float x[ONE_COUNT_input0], y[ONE_COUNT_output0], z[TWO_COUNT_output0];\n"
         "int main(void) {\n  one_init(a);\n  two_init(b);\n  one_run(a, x, y);\n"
         "  two_run(b, x, z);\n  return memcmp(y, z, sizeof(y)) != 0 || y[0] == 0;\n}\n";
  ASSERT_EQ(shell("cc " + path("both.c") + " " + path("one.o") + " " + path("two.o") + " -o " +
                  path("both")),
            0);
  EXPECT_EQ(shell(path("both")), 0);
}

TEST_F(Freeze, ValgrindFindsNothing) {
  if (!has("valgrind")) GTEST_SKIP() << "no valgrind";
  begin(16);
  const Floats x = noise(4 * 37, 89);
  aster_ml_lazy* in = data(x, {4, 37});
  const aster_ml_boundary b = boundary({in}, {mlp(in)});
  const std::vector<const char*> target = {"x86-64"};
  aster_ml_freeze_options o = for_cpus(target);
  o.threads = 2;
  OK(aster_ml_freeze_step(path("net").c_str(), &context, &b, &o));
  const Floats want = engine(b, x);
  EXPECT_EQ(
      execute("valgrind -q --error-exitcode=9 --leak-check=full " + path("net"), x, want.size()),
      want);
}

// Convolutions and attention as well.
TEST_F(Freeze, ValgrindFindsNothingInLargerOnes) {
  if (!has("valgrind")) GTEST_SKIP() << "no valgrind";
  begin(16);
  const Floats images = noise(2 * 3 * 17 * 19, 91), words = noise(12 * 32, 92);
  aster_ml_lazy *x = data(images, {2, 3, 17, 19}), *s = data(words, {1, 12, 32});
  const std::vector<const char*> target = {"x86-64"};
  aster_ml_freeze_options o = for_cpus(target);
  const std::string valgrind = "valgrind -q --error-exitcode=9 --leak-check=full ";
  const aster_ml_boundary first = boundary({x}, {convolutions(x)});
  OK(aster_ml_freeze_step(path("images").c_str(), &context, &first, &o));
  const Floats want = engine(first, images);
  EXPECT_EQ(execute(valgrind + path("images"), images, want.size()), want);
  const aster_ml_boundary second = boundary({s}, {attention(s)});
  OK(aster_ml_freeze_step(path("words").c_str(), &context, &second, &o));
  const Floats wanted = engine(second, words);
  EXPECT_EQ(execute(valgrind + path("words"), words, wanted.size()), wanted);
}

TEST_F(Freeze, NamesBecomeNamesInC) {
  aster_ml_lazy *x = data({1, 2}, {2}), *z = data({3, 4}, {2}), *y = handle();
  OK(aster_ml_lazy_add(y, x, z));
  aster_ml_boundary b = boundary({x, z}, {y});
  const char* const in[] = {"int", "*/ \"1\""};
  const char* const out[] = {"int_"};
  b.input_names = in, b.output_names = out;
  OK(aster_ml_freeze_step(path("9 lives-of.o").c_str(), &context, &b, nullptr));
  const std::string header = text_of(path("x9_lives_of.h"));
  EXPECT_NE(header.find("x9_lives_of_run(void *memory, const float *int_, const float *x____1_, "
                        "float *int__)"),
            std::string::npos)
      << header;
  EXPECT_EQ(shell("cc -Wall -Werror -c -x c " + path("x9_lives_of.h") + " -o /dev/null"), 0);
}

// Everything that fails leaves one line, and no file.
class FreezeFails : public Freeze {
 protected:
  void SetUp() override {
    Freeze::SetUp();
    x = data(noise(4 * 37, 88), {4, 37});
  }
  void fails(int32_t status, const std::string& said, aster_ml_lazy* y,
             const aster_ml_freeze_options& o, const std::string& file = "net.o") {
    const aster_ml_boundary b = boundary({x}, {y});
    EXPECT_EQ(aster_ml_freeze_step(path(file).c_str(), &context, &b, &o), status) << message();
    EXPECT_NE(message().find(said), std::string::npos) << message();
    EXPECT_EQ(message().find('\n'), std::string::npos);
    EXPECT_TRUE(fs::is_empty(folder)) << fs::directory_iterator(folder)->path();
  }
  aster_ml_lazy* x = nullptr;
};

TEST_F(FreezeFails, OnBadOptions) {
  aster_ml_lazy* y = mlp(x);
  const std::vector<const char*> unknown = {"x86-64-v9"}, mixed = {"x86-64", "aarch64"},
                                 twice = {"native", "native"};
  fails(ASTER_ML_NOT_FOUND, "x86-64-v9", y, for_cpus(unknown));
  fails(ASTER_ML_ARGUMENT, "do not go into one file", y, for_cpus(mixed));
  fails(ASTER_ML_ARGUMENT, "twice", y, for_cpus(twice));
  aster_ml_freeze_options o = options();
  o.name = "two words";
  fails(ASTER_ML_ARGUMENT, "no name in C", y, o);
  o = options();
  o.form = 9;
  fails(ASTER_ML_RANGE, "form", y, o);
  o = options();
  o.flags = 64;
  fails(ASTER_ML_RANGE, "flags", y, o);
  o = options();
  o.threads = -1;
  fails(ASTER_ML_RANGE, "threads", y, o);
  o = options();
  o.flags = ASTER_ML_FREEZE_KERNEL;
  fails(ASTER_ML_ARGUMENT, "an executable gives nobody a kernel", y, o, "net");
  aster_ml_lazy *state = weights({4, 37}, 21), *sum = handle(), *read = handle();
  OK(aster_ml_lazy_add(sum, state, x));
  OK(aster_ml_lazy_assign(state, sum));
  OK(aster_ml_lazy_relu(read, state));
  fails(ASTER_ML_UNSUPPORTED, "is no kernel", read, o);
}

TEST_F(FreezeFails, WithoutACompilerOrAPlace) {
  aster_ml_lazy* y = mlp(x);
  aster_ml_freeze_options o = options();
  o.compiler = "no-such-compiler";
  fails(ASTER_ML_UNSUPPORTED, "no-such-compiler", y, o);
  fails(ASTER_ML_NOT_FOUND, "no such file", y, options(), "nowhere/net.o");
  if (!has("aarch64-linux-gnu-gcc")) return;
  o.compiler = "aarch64-linux-gnu-gcc";  // makes no code for this CPU
  fails(ASTER_ML_COMPILE, "aarch64-linux-gnu-gcc", y, o);
}

TEST_F(FreezeFails, OnWhatIsAFunctionOfTheLibrary) {
  aster_ml_lazy *values = handle(), *places = handle(), *wide = handle(), *sum = handle();
  OK(aster_ml_lazy_sort(values, places, x, 1, 0));
  fails(ASTER_ML_UNSUPPORTED, "sort", values, options());
  OK(aster_ml_lazy_cast(wide, x, ASTER_ML_DTYPE_FLT256));
  OK(aster_ml_lazy_add(sum, wide, wide));
  fails(ASTER_ML_UNSUPPORTED, "flt256", sum, options());
}

TEST_F(FreezeFails, OnProgramsThatAreNone) {
  const fs::path other = folder.string() + "_other";
  fs::create_directories(other);
  const std::string file = (other / "bad.aster").string();
  EXPECT_EQ(aster_ml_freeze(path("net.o").c_str(), &context, file.c_str(), nullptr),
            ASTER_ML_NOT_FOUND);
  std::ofstream(file) << "aster 1 opset 1\nnonsense\n";
  EXPECT_EQ(aster_ml_freeze(path("net.o").c_str(), &context, file.c_str(), nullptr),
            ASTER_ML_FORMAT);
  EXPECT_EQ(aster_ml_freeze(nullptr, &context, file.c_str(), nullptr), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_freeze(path("net.o").c_str(), nullptr, file.c_str(), nullptr),
            ASTER_ML_ARGUMENT);
  EXPECT_TRUE(fs::is_empty(folder));
  fs::remove_all(other);
}

}  // namespace
