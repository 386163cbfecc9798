#include "runtime/cpu/system_provider.h"

#include <algorithm>

namespace aster::runtime::cpu {
namespace {

Status system_identify(void* self, const CpuFeatures& features, Text& out) {
  const CompilerInfo& compiler = *static_cast<const CompilerInfo*>(self);
  write_identity(out, compiler);
  out << "\n";
  write_flags(out, compiler, features);
  return out.status();
}

Status system_compile(void* self, const CpuFeatures& features,
                      std::span<const std::string_view> sources, std::span<Vec<uint8_t>> objects,
                      Memory& memory, const Patience& patience) {
  return compile(*static_cast<const CompilerInfo*>(self), features, sources, objects, memory,
                 patience);
}

Status system_link(void* self, std::span<const uint8_t> object, Vec<uint8_t>* shared,
                   Memory& memory, const Patience& patience) {
  return link_shared(*static_cast<const CompilerInfo*>(self), object, shared, memory, patience);
}

Digest identity_key(const CompilerInfo& info) {
  const uint64_t numbers[] = {info.device, info.inode, static_cast<uint64_t>(info.size),
                              static_cast<uint64_t>(info.modified_ns)};
  return Sha256()
      .add_text("compiler identity")
      .add_text(info.path)
      .add(numbers, sizeof(numbers))
      .finish();
}

}  // namespace

Provider system_provider(CompilerInfo* compiler) {
  return {"system compiler", compiler, system_identify, system_compile, system_link, 0};
}

bool IdentityCache::recall(void* self, CompilerInfo* info) {
  const IdentityCache& in = *static_cast<const IdentityCache*>(self);
  Vec<uint8_t> bytes(*in.memory);
  if (!in.cache->get(kIdentityTarget, identity_key(*info), &bytes)) return false;
  if (bytes.size() < 2 || bytes.size() > sizeof(info->version)) return false;
  const auto kind = static_cast<CompilerKind>(bytes[0]);
  if (kind != CompilerKind::kGcc && kind != CompilerKind::kClang) return false;
  info->kind = kind;
  std::memcpy(info->version, bytes.data() + 1, bytes.size() - 1);
  info->version[bytes.size() - 1] = '\0';
  return true;
}

void IdentityCache::keep(void* self, const CompilerInfo& info) {
  const IdentityCache& in = *static_cast<const IdentityCache*>(self);
  uint8_t bytes[sizeof(info.version)] = {static_cast<uint8_t>(info.kind)};
  const size_t length = std::min(std::strlen(info.version), sizeof(bytes) - 1);
  std::memcpy(bytes + 1, info.version, length);
  in.cache->put(kIdentityTarget, identity_key(info), {bytes, length + 1});
}

}  // namespace aster::runtime::cpu
