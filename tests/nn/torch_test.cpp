#include <unistd.h>

#include <random>

#include "nn/world.h"

namespace nn_test {
namespace {

std::string shipped(const std::string& name) { return data_path(name, "data"); }

struct Row {
  std::string name, dtype;
  Shape shape;
  std::vector<float> values;
};

std::vector<Row> expected_rows() {
  std::vector<Row> out;
  std::ifstream file(shipped("torch.tsv"));
  std::string shape, hex;
  for (Row row; std::getline(file, row.name, '\t') && std::getline(file, row.dtype, '\t') &&
                std::getline(file, shape, '\t') && std::getline(file, hex);
       row = {}) {
    std::istringstream dims(shape);
    for (std::string dim; std::getline(dims, dim, ',');) row.shape.push_back(std::stoll(dim));
    row.values = floats_of(hex);
    out.push_back(row);
  }
  EXPECT_GT(out.size(), 20u);
  return out;
}

std::string our_name(std::string dtype) {
  const std::map<std::string, std::string> names = {{"float8_e4m3fn", "fp8e4m3"},
                                                    {"float8_e4m3fnuz", "fp8e4m3fnuz"},
                                                    {"float8_e5m2", "fp8e5m2"},
                                                    {"float8_e5m2fnuz", "fp8e5m2fnuz"}};
  return names.count(dtype) != 0 ? names.at(dtype) : dtype;
}

const char* structure(State& state) {
  const char* text = nullptr;
  EXPECT_OK(aster_ml_state_get_metadata(&text, &state, "structure"));
  return text == nullptr ? "" : text;
}

void expect_rows(State& state, bool legacy) {
  size_t count = 0;
  for (const Row& row : expected_rows()) {
    const bool late = row.dtype.starts_with("uint") && row.dtype != "uint8";
    if (legacy && (late || row.dtype.starts_with("float8"))) continue;
    ++count;
    Tensor x = get(state, row.name.c_str());
    EXPECT_STREQ(aster_ml_dtype_name(aster_ml_lazy_dtype(x.get())), our_name(row.dtype).c_str());
    ASSERT_EQ(aster_ml_lazy_ndim(x.get()), row.shape.size()) << row.name;
    for (size_t i = 0; i < row.shape.size(); ++i) {
      EXPECT_EQ(aster_ml_lazy_dim(x.get(), static_cast<int64_t>(i)), row.shape[i]) << row.name;
    }
    EXPECT_EQ(read(cast(x, ASTER_ML_DTYPE_FLOAT32)), row.values) << row.name;
  }
  EXPECT_EQ(aster_ml_state_count(&state), count);
}

TEST(Torch, ReadsZipFiles) {
  Session s;
  State state, again;
  OK(aster_ml_state_read_torch(&state, s.get(), shipped("torch.zip.pt").c_str()));
  expect_rows(state, false);
  Tensor bytes = bytes_tensor(file_bytes(shipped("torch.zip.pt")));
  OK(aster_ml_state_from_torch(&again, bytes.get()));
  expect_rows(again, false);
}

TEST(Torch, ReadsLegacyFiles) {
  Session s;
  State state;
  OK(aster_ml_state_read_torch(&state, s.get(), shipped("torch.legacy.pt").c_str()));
  expect_rows(state, true);
}

TEST(Torch, ReadsTarFiles) {
  Session s;
  State state;
  OK(aster_ml_state_read_torch(&state, s.get(), shipped("torch.tar.pt").c_str()));
  EXPECT_EQ(aster_ml_state_count(&state), 3u);
  EXPECT_EQ(read(get(state, "a")), (std::vector<float>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(read(get(state, "b")), (std::vector<float>{1, 4, 2, 5}));
  EXPECT_EQ(read(cast(get(state, "c"), ASTER_ML_DTYPE_FLOAT32)), (std::vector<float>{8, 9}));
}

TEST(Torch, TellsTheStructure) {
  Session s;
  State state, one;
  OK(aster_ml_state_read_torch(&state, s.get(), shipped("torch.zip.pt").c_str()));
  const std::string text = structure(state);
  for (const char* part :
       {R"({"dict":[["model",{"dict":[["0.weight",{"tensor":"model.0.weight"}])",
        R"(["list",[{"tensor":"list.0"},{"tuple":[{"tensor":"list.1.0"},5]}]])", R"(["epoch",12])",
        R"(["rate",0.125])", R"(["big",{"int":"400000000000000001"}])",
        R"(["minus",-1099511627776])", R"(["name","a \"net\" )", R"(["nothing",null],["yes",true])",
        R"(["odd",[{"float":"inf"},{"float":"nan"},1)", R"(["set",{"set":[1]}])",
        R"(["raw",{"bytes":"00ff"}])", R"(["size",{"tuple":[2,3]}])",
        R"([3,{"dict":[["deep",{"dict":[["er",{"tensor":"3.deep.er"}]]}]]}])"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n in " << text;
  }
  OK(aster_ml_state_read_torch(&one, s.get(), shipped("tensor.pt").c_str()));
  EXPECT_STREQ(structure(one), R"({"tensor":"value"})");
  EXPECT_EQ(read(get(one, "value")), (std::vector<float>{-2, -0.25, 1.5, 3.25, -0.75, 1}));
}

// Tensors of one storage lie in the file, and outlive the state and the file's name.
TEST(Torch, IsMapped) {
  Session s;
  TemporaryFile file;
  file.write(file_bytes(shipped("torch.zip.pt")));
  Tensor base, rows;
  {
    State state;
    OK(aster_ml_state_read_torch(&state, s.get(), file.path()));
    base = get(state, "layouts.base");
    rows = get(state, "layouts.shared.rows");
  }
  unlink(file.path());
  aster_ml_tensor x{}, y{};
  OK(aster_ml_lazy_view(&x, base.get()));
  OK(aster_ml_lazy_view(&y, rows.get()));
  EXPECT_EQ(x.storage.data, y.storage.data);
  EXPECT_EQ(y.byte_offset - x.byte_offset, 6 * sizeof(float));
  EXPECT_EQ(aster_ml_buffer_is_read_only(&x.storage), 1);
}

// ---- Pickles made by hand, in the format before 1.6 ----

std::string number(uint64_t value, size_t bytes) {
  std::string out(bytes, '\0');
  std::memcpy(out.data(), &value, bytes);
  return out;
}
std::string text(const std::string& value) { return 'X' + number(value.size(), 4) + value; }
std::string name(const std::string& module, const std::string& what) {
  return 'c' + module + '\n' + what + '\n';
}
std::string integer(int64_t value) { return "\x8a\x08" + number(static_cast<uint64_t>(value), 8); }
std::string tuple(const std::string& items) { return '(' + items + 't'; }

// A file around one pickle and a storage "0" of four floats, 0 to 3.
std::string sequence(const std::string& pickle, const std::string& keys = ']' + text("0") + 'a') {
  const std::string magic("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.", 15);
  const std::string version("\x80\x02M\xe9\x03.", 6), system("\x80\x02}.", 4);
  std::string storage = number(4, 8);
  for (const float value : {0.0f, 1.0f, 2.0f, 3.0f}) {
    storage.append(reinterpret_cast<const char*>(&value), 4);
  }
  return magic + version + system + "\x80\x02" + pickle + '.' + "\x80\x02" + keys + '.' + storage;
}
std::string storage(int64_t count = 4, const std::string& type = "FloatStorage") {
  return tuple(text("storage") + name("torch", type) + text("0") + text("cpu") + integer(count)) +
         'Q';
}
std::string tensor_pickle(int64_t offset, std::vector<int64_t> sizes, std::vector<int64_t> strides,
                          const std::string& more = "\x89N") {
  std::string shape, steps;
  for (const int64_t size : sizes) shape += integer(size);
  for (const int64_t stride : strides) steps += integer(stride);
  return name("torch._utils", "_rebuild_tensor_v2") +
         tuple(storage() + integer(offset) + tuple(shape) + tuple(steps) + more) + 'R';
}

int32_t load(State& state, const std::string& bytes) {
  Tensor file = bytes_tensor(bytes);
  return aster_ml_state_from_torch(&state, file.get());
}
int32_t code_of(const std::string& bytes) {
  State state;
  const int32_t code = load(state, bytes);
  EXPECT_EQ(state.h.impl == nullptr, code != 0);
  return code;
}

TEST(Torch, ReadsTheHandMadeFile) {
  Session s;
  State state;
  OK(load(state, sequence(tensor_pickle(1, {3}, {1}))));
  EXPECT_EQ(read(get(state, "value")), (std::vector<float>{1, 2, 3}));
  State overlapping;
  OK(load(overlapping, sequence(tensor_pickle(0, {3, 2}, {1, 1}))));
  EXPECT_EQ(read(get(overlapping, "value")), (std::vector<float>{0, 1, 1, 2, 2, 3}));
  State huge;  // of no memory: one element, expanded
  OK(load(huge, sequence(tensor_pickle(3, {1 << 30, 1 << 20}, {0, 0}))));
  Tensor x = get(huge, "value");
  const int64_t begin[] = {5, 7}, end[] = {6, 9};
  EXPECT_EQ(read(make(aster_ml_lazy_shrink, x.get(), size_t{2}, begin, end)),
            (std::vector<float>{3, 3}));
}

// What a pickle names is never imported: it is on the list, or refused by its name.
TEST(Torch, RefusesWhatIsNoState) {
  Session s;
  const struct {
    std::string module, name;
  } wanted[] = {{"os", "system"},
                {"posix", "system"},
                {"nt", "system"},
                {"builtins", "eval"},
                {"__builtin__", "exec"},
                {"builtins", "getattr"},
                {"subprocess", "Popen"},
                {"torch", "load"},
                {"torch.serialization", "load"},
                {"torch.storage", "_load_from_bytes"},
                {"torch", "_utils._rebuild_tensor_v2"},
                {"collections", "defaultdict"},
                {"numpy.core.multiarray", "_reconstruct"},
                {"torch._utils", "_rebuild_sparse_tensor"},
                {"torch", "ComplexFloatStorage"},
                {"torch", ""},
                {"", ""}};
  for (const auto& row : wanted) {
    for (const std::string& call :
         {name(row.module, row.name) + tuple(text("echo")) + 'R',
          text(row.module) + text(row.name) + "\x93" + tuple(text("echo")) + "\x81",
          ']' + name(row.module, row.name) + 'a'}) {
      EXPECT_EQ(code_of(sequence(call)), ASTER_ML_UNSUPPORTED) << row.module << "." << row.name;
      const std::string expected = "'" + row.module + "." + row.name + "'";
      EXPECT_NE(last_error().find(expected), std::string::npos) << last_error();
    }
  }
  // INST and OBJ call what they name, and extensions are registered globally.
  for (const std::string opcode : {"(ios\nsystem\n", "(cos\nsystem\no", "\x82\x01"}) {
    EXPECT_EQ(code_of(sequence(opcode)), ASTER_ML_UNSUPPORTED) << opcode;
  }
}

std::string skipped(const std::string& pickle, State& state) {
  Tensor file = bytes_tensor(sequence(pickle));
  const int32_t code = aster_ml_state_from_torch_skipping(&state, file.get());
  EXPECT_EQ(code, 0) << last_error();
  const char *structure = "", *names = "";
  if (code == 0) {
    EXPECT_EQ(aster_ml_state_get_metadata(&structure, &state, "structure"), 0);
    EXPECT_EQ(aster_ml_state_get_metadata(&names, &state, "skipped"), 0);
  }
  return std::string(names) + " " + structure;
}

TEST(Torch, SkipsUnknownNamesWhereAsked) {
  Session s;
  const std::string object = name("__main__", "Net") + ")\x81", other = name("a.b", "c");
  const std::string tensor = tensor_pickle(1, {3}, {1});
  const struct {
    std::string pickle, expected;
  } files[] = {
      {tensor, R"([] {"tensor":"value"})"},
      // Attributes, items of subclasses of containers, calls.
      {object + '}' + text("w") + tensor + "sb",
       R"(["__main__.Net"] {"dict":[["w",{"tensor":"w"}]]})"},
      {object + text("w") + tensor + 's', R"(["__main__.Net"] {"dict":[["w",{"tensor":"w"}]]})"},
      {object + tensor + 'a', R"(["__main__.Net"] [{"tensor":"0"}])"},
      {"](" + other + ')' + 'R' + other + object + tensor + 'e',
       R"(["a.b.c","__main__.Net"] [{"unknown":"a.b.c"},{"unknown":"a.b.c"},)"
       R"({"unknown":"__main__.Net"},{"tensor":"3"}])"},
      {"](" + name("os", "system") + tuple(text("true")) + 'R' + tensor + 'e',
       R"(["os.system"] [{"unknown":"os.system"},{"tensor":"1"}])"},
  };
  for (const auto& file : files) {
    State state;
    EXPECT_EQ(skipped(file.pickle, state), file.expected);
  }
  State state;
  skipped(files[1].pickle, state);
  EXPECT_EQ(read(get(state, "w")), (std::vector<float>{1, 2, 3}));
  std::string many = "](";
  for (int i = 0; i < 1001; ++i) many += name("m", "n" + std::to_string(i));
  Tensor file = bytes_tensor(sequence(many + 'e'));
  EXPECT_EQ(aster_ml_state_from_torch_skipping(&state, file.get()), ASTER_ML_UNSUPPORTED);
}

TEST(Torch, RefusesTensorsOutsideTheirStorage) {
  Session s;
  const int64_t most = INT64_MAX;
  const struct {
    int64_t offset;
    std::vector<int64_t> sizes, strides;
  } bad[] = {{0, {5}, {1}},
             {1, {4}, {1}},
             {-1, {1}, {1}},
             {4, {1}, {1}},
             {0, {2}, {4}},
             {3, {2}, {-1}},
             {0, {-1}, {1}},
             {0, {2, 2}, {2}},
             {most, {1}, {1}},
             {0, {2}, {most}},
             {0, {most, 4}, {1, 1}},
             {1, {}, {1}},
             {0, {most, most}, {0, 0}},
             {most / 4 + 1, {2}, {1}}};
  for (const auto& row : bad) {
    EXPECT_EQ(code_of(sequence(tensor_pickle(row.offset, row.sizes, row.strides))), ASTER_ML_FORMAT)
        << row.offset << ": " << last_error();
  }
  EXPECT_EQ(code_of(sequence(tensor_pickle(-1, {1}, {1}))), ASTER_ML_FORMAT);
  EXPECT_NE(last_error().find("negative offset"), std::string::npos) << last_error();
  EXPECT_EQ(code_of(sequence(tensor_pickle(0, {70, 2}, {0, 1}))), 0) << last_error();
  EXPECT_EQ(code_of(sequence(tensor_pickle(0, {3, 2, 2}, {1, 1, 0}))), 0) << last_error();
  const std::string conjugated = "\x89N}" + text("conj") + "\x88s";
  EXPECT_EQ(code_of(sequence(tensor_pickle(0, {2}, {1}, conjugated))), ASTER_ML_UNSUPPORTED);
}

TEST(Torch, RefusesDamagedPickles) {
  Session s;
  const std::string rebuild = name("torch._utils", "_rebuild_tensor_v2");
  std::string deep, wide = "]q\x01", billion;
  for (int i = 0; i < 200; ++i) deep += ']';
  for (int i = 0; i < 199; ++i) deep += 'a';
  // Lists of ten times the list before.
  for (int level = 0; level < 30; ++level) {
    billion += "]r" + number(static_cast<uint64_t>(level), 4);
    for (int k = 0; level > 0 && k < 10; ++k) {
      billion += "j" + number(static_cast<uint64_t>(level - 1), 4) + "a";
    }
    billion += level < 29 ? "0" : "";
  }
  const struct {
    const char* why;
    std::string pickle;
  } bad[] = {
      {"nothing", ""},
      {"pop of nothing", "0"},
      {"values left over", "NN"},
      {"mark left over", "(N"},
      {"no mark", "t"},
      {"memo never set", "h\x05"},
      {"tuple of nothing", "\x87"},
      {"append to no list", "NNa"},
      {"item of no dict", "]NNs"},
      {"odd items", "}(Nu"},
      {"odd dict", "(Nd"},
      {"text beyond the end", 'X' + number(0xFFFFFFF0, 4) + "abc"},
      {"text of 64 bits", "\x8d" + number(UINT64_MAX, 8)},
      {"call of a text", text("x") + ")R"},
      {"call with no tuple", name("collections", "OrderedDict") + "NR"},
      {"call of a type", name("torch", "FloatStorage") + ")R"},
      {"tensor of nothing", rebuild + ")R"},
      {"tensor of no storage", rebuild + tuple("N" + integer(0) + "))") + "R"},
      {"sizes are no tuple", rebuild + tuple(storage() + integer(0) + "NN") + "R"},
      {"sizes are texts",
       rebuild + tuple(storage() + integer(0) + tuple(text("a")) + tuple(integer(1))) + "R"},
      {"storage of a negative size", storage(-1)},
      {"storage as a value", storage()},
      {"global as a value", name("collections", "OrderedDict")},
      {"identifier of nothing", "NQ"},
      {"identifier of no tensor", text("7") + "Q"},
      {"short identifier", tuple(text("storage")) + "Q"},
      {"identifier of another kind", tuple(text("module") + "NNNN") + "Q"},
      {"dict of no pairs",
       name("collections", "OrderedDict") + tuple("]" + integer(1) + "a") + "R"},
      {"a list as key", "}]Ns"},
      {"deep", deep},
      {"contains itself",
       "]q\x01h\x01"
       "a"},
      {"a billion laughs", billion},
      {"attributes of a list", "]}b"},
      {"integer line", "Iabc\n"},
      {"float line", "F1.5x\n"},
      {"line without an end", "I12"},
      {"text without quotes", "Sabc\n"},
  };
  for (const auto& row : bad) {
    EXPECT_EQ(code_of(sequence(row.pickle)), ASTER_ML_FORMAT) << row.why << ": " << last_error();
  }
  EXPECT_EQ(code_of(sequence("\x80\x06N")), ASTER_ML_UNSUPPORTED);
  EXPECT_EQ(code_of(sequence("S'a\\n'\n")), ASTER_ML_UNSUPPORTED);
  // Storages: missing, of the wrong key, cut short.
  const std::string good = sequence(tensor_pickle(0, {4}, {1}));
  EXPECT_EQ(code_of(good), 0) << last_error();
  EXPECT_EQ(code_of(good.substr(0, good.size() - 1)), ASTER_ML_FORMAT);
  EXPECT_EQ(code_of(sequence(tensor_pickle(0, {4}, {1}), "]")), ASTER_ML_FORMAT);
  EXPECT_EQ(code_of(sequence(tensor_pickle(0, {4}, {1}), ']' + text("1") + 'a')), ASTER_ML_FORMAT);
  EXPECT_EQ(code_of(sequence(tensor_pickle(0, {4}, {1}), "N")), ASTER_ML_FORMAT);
  EXPECT_EQ(code_of(""), ASTER_ML_FORMAT);
  EXPECT_EQ(code_of("no file of torch"), ASTER_ML_FORMAT);
}

// Old protocols write numbers and texts as lines.
TEST(Torch, ReadsOldProtocols) {
  Session s;
  State state;
  OK(load(state, sequence("(lp0\nI12\naI01\naL-5L\naF0.5\naS'text'\naVline\na0g0\n", "]")));
  EXPECT_STREQ(structure(state), R"([12,true,-5,0.5,"text","line"])");
}

// Any bytes changed, any length: a status, never a crash, never a tensor that cannot be read.
void survive(const std::string& good, int32_t (*read)(aster_ml_state*, const aster_ml_lazy*),
             uint32_t seed, int rounds) {
  std::mt19937 random(seed);
  int fine = 0;
  for (int i = 0; i < rounds; ++i) {
    Session s;
    std::string damaged = good;
    for (auto k = 1 + random() % 4; k > 0; --k) {
      damaged[random() % damaged.size()] = static_cast<char>(random());
    }
    if (i % 4 == 0) damaged.resize(random() % damaged.size());
    if (i % 7 == 0) damaged.insert(random() % (damaged.size() + 1), 1, static_cast<char>(random()));
    State state;
    Tensor file = bytes_tensor(damaged);
    const int32_t status = read(&state, file.get());
    ASSERT_TRUE(status == 0 || status == ASTER_ML_FORMAT || status == ASTER_ML_UNSUPPORTED)
        << last_error();
    fine += status == 0;
    for (size_t t = 0; t < aster_ml_state_count(&state); ++t) {
      Tensor x = get(state, aster_ml_state_name(&state, t));
      if (aster_ml_lazy_count(x.get()) < 10000 && aster_ml_lazy_is_realized(x.get()) != 0)
        read_bytes(x);
    }
  }
  EXPECT_GT(fine, 0);
}

TEST(Torch, SurvivesDamage) {
  survive(file_bytes(shipped("torch.zip.pt")), aster_ml_state_from_torch, 1, 1000);
  survive(file_bytes(shipped("torch.zip.pt")), aster_ml_state_from_torch_skipping, 5, 1000);
  survive(file_bytes(shipped("torch.legacy.pt")), aster_ml_state_from_torch, 2, 1500);
  survive(file_bytes(shipped("torch.tar.pt")), aster_ml_state_from_torch, 3, 500);
  survive(sequence(tensor_pickle(0, {2, 2}, {1, 2})), aster_ml_state_from_torch, 4, 3000);
  survive(file_bytes(shipped("archive.zip")), aster_ml_state_from_zip, 5, 700);
  survive(file_bytes(shipped("archive.tar")), aster_ml_state_from_tar, 6, 300);
  survive(file_bytes(shipped("archive.tar.gz")), aster_ml_state_from_tar, 7, 700);
}

}  // namespace
}  // namespace nn_test
