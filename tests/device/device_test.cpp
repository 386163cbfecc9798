// Names and codes, and backends registered through the public header.
#include "device/device.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <string>

#include "device/toy_backend.h"

namespace {

int32_t code_of(const char* name) {
  int32_t code = -1;
  EXPECT_EQ(aster_ml_device_from_name(&code, name), ASTER_ML_OK) << name;
  return code;
}

std::string name_of(int32_t code) {
  char name[48];
  EXPECT_EQ(aster_ml_device_to_name(name, sizeof(name), code), ASTER_ML_OK) << code;
  return name;
}

int32_t status_of(const char* name) {
  int32_t code = -1;
  const int32_t status = aster_ml_device_from_name(&code, name);
  if (status != ASTER_ML_OK) {
    EXPECT_EQ(code, 0) << name;
  }
  return status;
}

TEST(Device, TellsWhatItIs) {
  aster_ml_device_info info{};
  EXPECT_EQ(aster_ml_device_describe(nullptr, 0), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_device_describe(&info, 0), ASTER_ML_ARGUMENT);
  info.struct_size = sizeof(info);
  ASSERT_EQ(aster_ml_device_describe(&info, 0), ASTER_ML_OK);
  EXPECT_EQ(info.kind, ASTER_ML_DEVICE_KIND_CPU);
  EXPECT_STREQ(info.name, "CPU");
  EXPECT_EQ(aster_ml_device_describe(&info, ASTER_ML_DEVICE_CUDA), ASTER_ML_UNSUPPORTED);
  EXPECT_EQ(aster_ml_device_describe(&info, -3), ASTER_ML_ARGUMENT);
  ASSERT_EQ(aster_ml_device_describe(&info, ASTER_ML_DEVICE_NULL), ASTER_ML_OK);
  EXPECT_EQ(info.kind, ASTER_ML_DEVICE_KIND_OTHER);
  EXPECT_EQ(info.forms, 0u);
  aster_ml_backend failing{};
  failing.struct_size = sizeof(failing);
  failing.allocate = [](void*, void**, int32_t, size_t) -> int32_t { return ASTER_ML_MEMORY; };
  failing.release = [](void*, int32_t, void*, size_t) {};
  failing.copy_in = [](void*, int32_t, void*, size_t, const void*, size_t) -> int32_t { return 1; };
  failing.copy_out = [](void*, int32_t, void*, const void*, size_t, size_t) -> int32_t {
    return 1;
  };
  failing.describe = [](void*, int32_t, aster_ml_device_info*) -> int32_t { return ASTER_ML_IO; };
  int32_t code = 0;
  ASSERT_EQ(aster_ml_device_register(&code, "FAILING", &failing), ASTER_ML_OK);
  EXPECT_EQ(aster_ml_device_describe(&info, code), ASTER_ML_DEVICE);
}

TEST(Device, CodesAreThoseOfTheAbi) {
  EXPECT_EQ(code_of("CPU"), 65536);
  EXPECT_EQ(code_of("cpu:1"), 65537);
  EXPECT_EQ(code_of("OpenCL:0"), 131072);
  EXPECT_EQ(code_of("reference"), 196608);
  EXPECT_EQ(code_of("DISK"), 262144);
  EXPECT_EQ(code_of("cuda:65535"), 5 * 65536 + 65535);
  EXPECT_EQ(code_of("CPU:007"), 65543);
}

TEST(Device, NamesAreCanonical) {
  EXPECT_EQ(name_of(0), "CPU");
  EXPECT_EQ(name_of(code_of("cpu:0")), "CPU");
  EXPECT_EQ(name_of(code_of("opencl:0")), "OPENCL");
  EXPECT_EQ(name_of(code_of("cpu:12")), "CPU:12");
  for (const char* name :
       {"CPU", "CPU:1", "OPENCL", "REFERENCE:3", "DISK", "CUDA:65535", "NULL:1"}) {
    EXPECT_EQ(name_of(code_of(name)), name);
  }
  EXPECT_STREQ(aster::device::name(-4).text, "?");
}

TEST(Device, TypeAndIndex) {
  EXPECT_EQ(aster_ml_device_type(code_of("opencl:5")), 2);
  EXPECT_EQ(aster_ml_device_index(code_of("opencl:5")), 5);
  EXPECT_EQ(aster_ml_device_type(0), 1);
  for (const int32_t wrong : {1, 65535, 9 * 65536, 90 * 65536, -65536, INT32_MAX, INT32_MIN}) {
    EXPECT_EQ(aster_ml_device_type(wrong), 0) << wrong;
    EXPECT_EQ(aster_ml_device_index(wrong), 0) << wrong;
    EXPECT_EQ(aster_ml_device_is_available(wrong), 0) << wrong;
    char name[48] = "left";
    EXPECT_EQ(aster_ml_device_to_name(name, sizeof(name), wrong), ASTER_ML_ARGUMENT) << wrong;
    EXPECT_STREQ(name, "");
  }
}

// Names that frameworks use are known, whether or not this process has a backend for them.
TEST(Device, NamesOfOtherPeoplesDevices) {
  EXPECT_EQ(code_of("cpu"), ASTER_ML_DEVICE_CPU);
  EXPECT_EQ(code_of("cuda:0"), ASTER_ML_DEVICE_CUDA);
  EXPECT_EQ(code_of("rocm"), ASTER_ML_DEVICE_ROCM);
  EXPECT_EQ(code_of("metal:2"), ASTER_ML_DEVICE_METAL + 2);
  EXPECT_EQ(aster_ml_device_is_available(ASTER_ML_DEVICE_ROCM), 0);
  EXPECT_EQ(aster_ml_device_is_available(ASTER_ML_DEVICE_METAL), 0);
}

TEST(Device, BadNames) {
  for (const char* name : {"", ":", ":1", "CPU:", "CPU:x", "CPU:-1", "CPU:1:2", " CPU", "CPU 1",
                           "1CPU", "CPU:1 ", "ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEF", "\xC3\x84"}) {
    EXPECT_EQ(status_of(name), ASTER_ML_FORMAT) << name;
  }
  EXPECT_EQ(status_of("CPU:65536"), ASTER_ML_RANGE);
  EXPECT_EQ(status_of("CPU:99999999999999999999"), ASTER_ML_RANGE);
  EXPECT_EQ(status_of("TPU"), ASTER_ML_NOT_FOUND);
  EXPECT_EQ(status_of(nullptr), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_device_from_name(nullptr, "CPU"), ASTER_ML_ARGUMENT);
  char name[3];
  EXPECT_EQ(aster_ml_device_to_name(name, sizeof(name), 0), ASTER_ML_RANGE);
  EXPECT_EQ(aster_ml_device_to_name(nullptr, 0, 0), ASTER_ML_ARGUMENT);
}

TEST(Device, Availability) {
  EXPECT_EQ(aster_ml_device_is_available(0), 1);
  EXPECT_EQ(aster_ml_device_is_available(code_of("CPU:3")), 1);
  EXPECT_EQ(aster_ml_device_is_available(code_of("REFERENCE")), 1);
  EXPECT_EQ(aster_ml_device_is_available(code_of("DISK")), 0);
  EXPECT_EQ(aster_ml_device_is_available(code_of("CUDA")), 0);
  const aster_ml_backend* backend = nullptr;
  EXPECT_EQ(aster::device::backend(&backend, code_of("CUDA")), ASTER_ML_UNSUPPORTED);
  EXPECT_EQ(aster::device::backend(&backend, code_of("CPU")), ASTER_ML_OK);
  EXPECT_EQ(backend, nullptr);
  EXPECT_TRUE(aster::device::is_host(0));
  EXPECT_TRUE(aster::device::is_host(code_of("DISK")));
  EXPECT_FALSE(aster::device::is_host(code_of("CUDA")));
}

TEST(Device, NullHasAddressesAndNoMemory) {
  const int32_t null = code_of("null:3");
  EXPECT_EQ(null, 6 * 65536 + 3);
  EXPECT_EQ(aster_ml_device_is_available(null), 1);
  EXPECT_FALSE(aster::device::is_host(null));
  const aster_ml_backend* backend = nullptr;
  ASSERT_EQ(aster::device::backend(&backend, null), ASTER_ML_OK);
  void *first = nullptr, *second = nullptr;
  EXPECT_EQ(backend->allocate(backend->self, &first, 3, size_t{1} << 50), ASTER_ML_OK);
  EXPECT_EQ(backend->allocate(backend->self, &second, 3, 1), ASTER_ML_OK);
  EXPECT_GE(reinterpret_cast<uintptr_t>(second) - reinterpret_cast<uintptr_t>(first),
            uintptr_t{1} << 50);
  char byte = 0;
  EXPECT_EQ(backend->copy_in(backend->self, 3, first, 0, &byte, 1), ASTER_ML_OK);
  EXPECT_EQ(backend->copy(backend->self, 3, first, 0, second, 0, 1), ASTER_ML_OK);
  EXPECT_EQ(backend->copy_out(backend->self, 3, &byte, first, 0, 1), ASTER_ML_DEVICE);
  EXPECT_EQ(backend->allocate(backend->self, &first, 3, size_t{1} << 62), ASTER_ML_MEMORY);
  int32_t code = 0;
  EXPECT_EQ(aster_ml_device_register(&code, "NULL", backend), ASTER_ML_STATE);
}

TEST(Backend, IsRegisteredByName) {
  static aster_test::ToyDevice toy;
  const aster_ml_backend table = toy.table(true);
  int32_t code = 0;
  ASSERT_EQ(aster_ml_device_register(&code, "toy_1", &table), ASTER_ML_OK);
  EXPECT_GE(code, 64 * 65536);
  EXPECT_EQ(code_of("Toy_1"), code);
  EXPECT_EQ(name_of(code + 1), "TOY_1:1");
  EXPECT_EQ(aster_ml_device_is_available(code + 1), 1);
  EXPECT_EQ(aster_ml_device_is_available(code + 2), 0);  // there are two
  EXPECT_FALSE(aster::device::is_host(code));
  const aster_ml_backend* found = nullptr;
  EXPECT_EQ(aster::device::backend(&found, code + 1), ASTER_ML_OK);
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->self, &toy);
  EXPECT_EQ(aster::device::backend(&found, code + 2), ASTER_ML_ARGUMENT);
  EXPECT_EQ(found, nullptr);
  EXPECT_EQ(aster_ml_device_register(&code, "TOY_1", &table), ASTER_ML_STATE);
  EXPECT_EQ(code, 0);
}

TEST(Backend, TakesANameThatWaitsForOne) {
  static aster_test::ToyDevice toy;
  const aster_ml_backend table = toy.table(false);
  int32_t code = 0;
  ASSERT_EQ(aster_ml_device_register(&code, "opencl", &table), ASTER_ML_OK);
  EXPECT_EQ(code, ASTER_ML_DEVICE_OPENCL);
  EXPECT_EQ(aster_ml_device_is_available(code), 1);
}

TEST(Backend, BadInput) {
  static aster_test::ToyDevice toy;
  aster_ml_backend table = toy.table(true);
  int32_t code = 5;
  EXPECT_EQ(aster_ml_device_register(&code, "CPU", &table), ASTER_ML_STATE);
  EXPECT_EQ(code, 0);
  EXPECT_EQ(aster_ml_device_register(&code, "TOY:1", &table), ASTER_ML_FORMAT);
  EXPECT_EQ(aster_ml_device_register(&code, "", &table), ASTER_ML_FORMAT);
  EXPECT_EQ(aster_ml_device_register(&code, nullptr, &table), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_device_register(&code, "BAD", nullptr), ASTER_ML_ARGUMENT);
  EXPECT_EQ(aster_ml_device_register(nullptr, "BAD", &table), ASTER_ML_ARGUMENT);
  table.copy_out = nullptr;
  EXPECT_EQ(aster_ml_device_register(&code, "BAD", &table), ASTER_ML_ARGUMENT);
  table = toy.table(true);
  table.count = -1;
  EXPECT_EQ(aster_ml_device_register(&code, "BAD", &table), ASTER_ML_RANGE);
  table = toy.table(true);
  table.struct_size = 8;  // a table without functions
  EXPECT_EQ(aster_ml_device_register(&code, "BAD", &table), ASTER_ML_ARGUMENT);
  EXPECT_EQ(status_of("BAD"), ASTER_ML_NOT_FOUND);
}

// A device that would compute; nothing is called.
aster_ml_backend computing_table(aster_test::ToyDevice* toy) {
  aster_ml_backend table = toy->table(true);
  table.describe = [](void*, int32_t, aster_ml_device_info*) -> int32_t { return ASTER_ML_ERROR; };
  table.build = [](void*, void**, void**, int32_t, const aster_ml_code*, size_t, char*,
                   size_t) -> int32_t { return ASTER_ML_ERROR; };
  table.unbuild = [](void*, int32_t, void*) {};
  table.open = [](void*, void**, int32_t, uint32_t) -> int32_t { return ASTER_ML_ERROR; };
  table.close = [](void*, int32_t, void*) {};
  table.submit = [](void*, uint64_t*, int32_t, void*, const aster_ml_command*, size_t) -> int32_t {
    return ASTER_ML_ERROR;
  };
  table.wait = [](void*, int32_t, void*, uint64_t) -> int32_t { return ASTER_ML_ERROR; };
  return table;
}

// A table of memory alone, as callers built before there was more hand it in: what stands behind
// its end is not read.
TEST(Backend, TablesOfMemoryAloneAreTakenAsTheyWere) {
  static aster_test::ToyDevice toy;
  aster_ml_backend table = computing_table(&toy);
  table.wait = nullptr;
  table.struct_size = offsetof(aster_ml_backend, describe);
  int32_t code = 0;
  ASSERT_EQ(aster_ml_device_register(&code, "OLDTOY", &table), ASTER_ML_OK);
  const aster_ml_backend* found = nullptr;
  ASSERT_EQ(aster::device::backend(&found, code), ASTER_ML_OK);
  EXPECT_NE(found->copy, nullptr);
  EXPECT_EQ(found->describe, nullptr);
  EXPECT_EQ(found->build, nullptr);
}

TEST(Backend, WhatComputesIsComplete) {
  static aster_test::ToyDevice toy;
  const aster_ml_backend whole = computing_table(&toy);
  int32_t code = 0;
  const auto refused = [&](auto take_away) {
    aster_ml_backend table = whole;
    take_away(table);
    return aster_ml_device_register(&code, "PARTIAL", &table);
  };
  EXPECT_EQ(refused([](auto& t) { t.describe = nullptr; }), ASTER_ML_ARGUMENT);
  EXPECT_EQ(refused([](auto& t) { t.build = nullptr; }), ASTER_ML_ARGUMENT);
  EXPECT_EQ(refused([](auto& t) { t.unbuild = nullptr; }), ASTER_ML_ARGUMENT);
  EXPECT_EQ(refused([](auto& t) { t.open = nullptr; }), ASTER_ML_ARGUMENT);
  EXPECT_EQ(refused([](auto& t) { t.close = nullptr; }), ASTER_ML_ARGUMENT);
  EXPECT_EQ(refused([](auto& t) { t.submit = nullptr; }), ASTER_ML_ARGUMENT);
  EXPECT_EQ(refused([](auto& t) { t.wait = nullptr; }), ASTER_ML_ARGUMENT);
  EXPECT_EQ(refused([](auto& t) { t.struct_size = offsetof(aster_ml_backend, submit); }),
            ASTER_ML_ARGUMENT);
  EXPECT_EQ(status_of("PARTIAL"), ASTER_ML_NOT_FOUND);
  // Kinds of memory are apart from that, and a table of a later version may be longer.
  struct Longer {
    aster_ml_backend known;
    void* unknown;
  } longer = {whole, &toy};
  longer.known.struct_size = sizeof(longer);
  longer.known.allocate_kind = nullptr;
  ASSERT_EQ(aster_ml_device_register(&code, "WHOLE", &longer.known), ASTER_ML_OK);
  const aster_ml_backend* found = nullptr;
  ASSERT_EQ(aster::device::backend(&found, code), ASTER_ML_OK);
  EXPECT_EQ(found->wait, whole.wait);
  EXPECT_EQ(found->struct_size, sizeof(aster_ml_backend));
}

TEST(Backend, TheRegistryIsBounded) {
  static aster_test::ToyDevice toy;
  const aster_ml_backend table = toy.table(true);
  int32_t status = ASTER_ML_OK;
  int made = 0;
  for (; status == ASTER_ML_OK && made < 100; ++made) {
    int32_t code = 0;
    status = aster_ml_device_register(&code, ("MANY" + std::to_string(made)).c_str(), &table);
  }
  EXPECT_EQ(status, ASTER_ML_RANGE);
  EXPECT_GE(made, 16);
}

}  // namespace
