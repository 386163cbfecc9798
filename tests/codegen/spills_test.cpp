// How many vectors the compilers put on the stack in twenty kernels: what a change of the text does
// to their registers is seen here before it is felt. Compiled only; objdump reads the objects.
#include <fstream>

#include "codegen/kernel_support.h"
#include "codegen/known_kernels.h"

namespace aster::codegen::tests {
namespace {

using namespace known;

// Stores of vectors to the stack, arrays of kernels among them, as gcc 12 and clang 14 make them of
// vectors of 32 and of 64 bytes.
struct Recorded {
  const char* name;
  Node (*build)(Builder&);
  int gcc[2], clang[2];
};
const Recorded kRecorded[] = {
    {"add", add, {0, 0}, {0, 0}},
    {"row_sums", row_sums, {0, 0}, {0, 0}},
    {"column_sums", column_sums, {0, 0}, {0, 0}},
    {"argmax", argmax, {8, 0}, {1, 0}},
    {"gelu", gelu, {2, 0}, {6, 0}},
    {"softmax", softmax, {6, 0}, {17, 0}},
    {"layernorm", layernorm, {0, 0}, {0, 0}},
    {"matmul_64", matmul<64, false, false>, {0, 0}, {0, 0}},
    {"matmul_256", matmul<256, false, false>, {0, 0}, {0, 0}},
    {"matmul_512", matmul<512, false, false>, {0, 1}, {0, 0}},
    {"matmul_512_at", matmul<512, true, false>, {0, 0}, {0, 0}},
    {"matmul_512_bt", matmul<512, false, true>, {2, 10}, {2, 2}},
    {"matmul_512_abt", matmul<512, true, true>, {8, 18}, {8, 16}},
    {"matvec", matvec, {0, 0}, {0, 0}},
    {"conv_64_64", conv<64, 64, false>, {2, 10}, {4, 36}},
    {"conv_64_64_pad", conv<64, 64, true>, {6, 5}, {111, 0}},  // three times: both borders apart
    {"conv_32_8_pad", conv<32, 8, true>, {0, 0}, {4, 0}},
    {"conv_weight", conv_weight, {0, 0}, {0, 0}},
    {"max_pool", max_pool, {39, 0}, {59, 0}},  // masks, for which there are no registers
    {"transpose", transpose, {0, 0}, {0, 0}},
};
// Other versions of the compilers do a little otherwise; twice as many is no accident.
int limit(int recorded) { return recorded + recorded / 2 + 8; }

// Stores of vector registers to the stack by function; "" in front of the first.
std::map<std::string, int> count_spills(const std::string& object) {
  std::map<std::string, int> out;
  FILE* const pipe = popen(("objdump -d --no-show-raw-insn " + object).c_str(), "r");
  EXPECT_NE(pipe, nullptr);
  if (pipe == nullptr) return out;
  std::string function;
  for (char line[512]; std::fgets(line, sizeof(line), pipe) != nullptr;) {
    const std::string text = line;
    if (const size_t at = text.find('<'); at != std::string::npos && text.ends_with(">:\n")) {
      function = text.substr(at + 1, text.size() - at - 4);
    }
    const size_t move = text.find("mov"), from = text.find("mm"), comma = text.find(',');
    if (move == std::string::npos || from == std::string::npos || from > comma) continue;
    const size_t to = text.find('(', comma);
    if (to == std::string::npos) continue;
    out[function] += text.compare(to, 5, "(%rsp") == 0 || text.compare(to, 5, "(%rbp") == 0;
  }
  pclose(pipe);
  return out;
}

// The stores of each kernel, by the table's rows.
std::vector<int> spills_of(const std::string& compiler, const Target& target) {
  std::vector<std::unique_ptr<Rendered>> kernels;
  std::vector<const program::RenderedC*> unit;
  for (const Recorded& row : kRecorded) {
    Builder b;
    kernels.push_back(std::make_unique<Rendered>(process_heap()));
    EXPECT_TRUE(render(*kernels.back(), b.graph, row.build(b), target).ok()) << row.name;
    unit.push_back(&kernels.back()->code);
  }
  Text text(process_heap());
  EXPECT_TRUE(program::write_unit(text, unit, target).ok());
  char path[] = "/tmp/aster_spills_XXXXXX";
  const int fd = mkstemp(path);
  if (fd >= 0) close(fd);
  const std::string source = std::string(path) + ".c", object = std::string(path) + ".o";
  std::ofstream(source) << text.view();
  const std::string command =
      compiler + flags_of(compiler, target.vector_bytes) + "-fPIC -c " + source + " -o " + object;
  EXPECT_EQ(std::system(command.c_str()), 0) << command;
  std::map<std::string, int> found = count_spills(object);
  for (const std::string& file : {std::string(path), source, object}) unlink(file.c_str());
  std::vector<int> out;
  for (const auto& kernel : kernels) {
    EXPECT_TRUE(found.contains(kernel->name)) << "objdump tells no vectors of " << kernel->title;
    out.push_back(found[kernel->name]);
  }
  return out;
}

TEST(Spills, VectorsOnTheStackAreFew) {
  if (!has_program("objdump")) GTEST_SKIP() << "no objdump";
  for (const int wide : {0, 1}) {
    const int bytes = wide != 0 ? 64 : 32;
    for (const std::string& compiler : compilers()) {
      const std::vector<int> found = spills_of(compiler, target_of(bytes));
      const std::string where = " by " + compiler + " in " + std::to_string(bytes) + " bytes";
      int all = 0, all_recorded = 0;
      for (size_t i = 0; i < found.size(); ++i) {
        const Recorded& row = kRecorded[i];
        const int recorded = compiler == "gcc" ? row.gcc[wide] : row.clang[wide];
        all += found[i], all_recorded += recorded;
        EXPECT_LE(found[i], limit(recorded)) << row.name << where;
        if (std::getenv("ASTER_ML_TEST_REPORT") != nullptr)
          std::printf("%s%s: %d\n", row.name, where.c_str(), found[i]);
      }
      EXPECT_LE(all, limit(all_recorded)) << "all of them" << where;
    }
  }
}

}  // namespace
}  // namespace aster::codegen::tests
