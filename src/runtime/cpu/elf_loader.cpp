#include "runtime/cpu/elf_loader.h"

#include <dlfcn.h>
#include <elf.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "runtime/cpu/file.h"

namespace aster::runtime::cpu {

#define ELF_FAIL(...) ASTER_FAIL(kFORMAT, "object file: " __VA_ARGS__)

namespace {

constexpr uint64_t kSizeLimit = uint64_t{1}
                                << 30;  // of one image: keeps all displacements within 32 bits
constexpr uint64_t kPage = 4096;        // also the largest alignment of a section
constexpr uint64_t kStubBytes = 16;     // jmp *0(%rip), then the address
constexpr uint64_t kSlotBytes = 8;      // of the offset table

struct External {
  std::string_view name;
  uint64_t address;
};

uint64_t external_address(std::string_view name) {
  const External externals[] = {
#define SYMBOL(name, ...) \
  {#name, reinterpret_cast<uint64_t>(static_cast<std::add_pointer_t<__VA_ARGS__>>(&::name))},
#include "runtime/cpu/symbols.def"
#undef SYMBOL
  };
  for (const External& external : externals) {
    if (external.name == name) return external.address;
  }
  return 0;
}

// bytes[offset, offset + size), or false when that is not inside.
bool slice(std::span<const uint8_t> bytes, uint64_t offset, uint64_t size,
           std::span<const uint8_t>* out) {
  if (offset > bytes.size() || size > bytes.size() - offset) return false;
  *out = bytes.subspan(offset, size);
  return true;
}

// Records of T; the file may have them at any alignment, so they are copied.
template <typename T>
Status read_records(std::span<const uint8_t> bytes, uint64_t offset, uint64_t count, Vec<T>* out) {
  uint64_t size;
  std::span<const uint8_t> part;
  if (!checked_mul(count, uint64_t{sizeof(T)}, &size) || !slice(bytes, offset, size, &part)) {
    return ELF_FAIL("a table lies outside of it");
  }
  ASTER_TRY(out->reserve(count));
  for (uint64_t i = 0; i < count; ++i) {
    T record;
    memcpy(&record, part.data() + i * sizeof(T), sizeof(T));
    ASTER_TRY(out->push(record));
  }
  return kOk;
}

// A zero-terminated name in a string table; false when it does not end inside.
bool read_name(std::span<const uint8_t> strings, uint64_t offset, std::string_view* out) {
  if (offset >= strings.size()) return false;
  const char* text = reinterpret_cast<const char*>(strings.data()) + offset;
  const size_t length = strnlen(text, strings.size() - offset);
  if (length == strings.size() - offset) return false;
  *out = {text, length};
  return true;
}

bool fits_32(int64_t value) { return value == static_cast<int32_t>(value); }

}  // namespace

// The state of one load.
class Loader {
 public:
  Loader(Image& image, std::span<const uint8_t> object, Memory& memory)
      : image_(image),
        object_(object),
        sections_(memory),
        places_(memory),
        symbols_(memory),
        values_(memory) {}

  Status run() {
    ASTER_TRY(read_header());
    ASTER_TRY(read_symbols());
    ASTER_TRY(place_sections());
    ASTER_TRY(map());
    ASTER_TRY(resolve_symbols());
    for (const Elf64_Shdr& section : sections_) {
      if (section.sh_type == SHT_RELA) ASTER_TRY(relocate(section));
      if (section.sh_type == SHT_REL) return ELF_FAIL("relocations without addends");
    }
    ASTER_TRY(collect_functions());
    return protect();
  }

 private:
  static constexpr uint64_t kNowhere = ~uint64_t{0};

  Status read_header() {
    std::span<const uint8_t> part;
    Elf64_Ehdr header;
    if (!slice(object_, 0, sizeof(header), &part))
      return ELF_FAIL("%zu bytes are too few", object_.size());
    memcpy(&header, part.data(), sizeof(header));
    if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return ELF_FAIL("not ELF");
    if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB ||
        header.e_machine != EM_X86_64) {
      return ASTER_FAIL(kUNSUPPORTED, "object file: for another machine");
    }
    if (header.e_type != ET_REL) return ELF_FAIL("not relocatable");
    if (header.e_shentsize != sizeof(Elf64_Shdr) || header.e_shnum == 0)
      return ELF_FAIL("no sections");
    ASTER_TRY(read_records(object_, header.e_shoff, header.e_shnum, &sections_));
    if (header.e_shstrndx >= sections_.size() ||
        !contents(sections_[header.e_shstrndx], &section_names_)) {
      return ELF_FAIL("no section names");
    }
    return kOk;
  }

  bool contents(const Elf64_Shdr& section, std::span<const uint8_t>* out) const {
    return section.sh_type != SHT_NOBITS && slice(object_, section.sh_offset, section.sh_size, out);
  }

  Status read_symbols() {
    const Elf64_Shdr* table = nullptr;
    for (const Elf64_Shdr& section : sections_) {
      if (section.sh_type == SHT_SYMTAB_SHNDX) return ELF_FAIL("too many sections");
      if (section.sh_type != SHT_SYMTAB) continue;
      if (table != nullptr) return ELF_FAIL("two symbol tables");
      table = &section;
    }
    if (table == nullptr) return ELF_FAIL("no symbol table");
    if (table->sh_link >= sections_.size() ||
        !contents(sections_[table->sh_link], &symbol_names_)) {
      return ELF_FAIL("no symbol names");
    }
    return read_records(object_, table->sh_offset, table->sh_size / sizeof(Elf64_Sym), &symbols_);
  }

  // Code and constants first, then (on pages of their own) what is writable.
  Status place_sections() {
    ASTER_TRY(places_.resize(sections_.size(), kNowhere));
    uint64_t end = 0;
    for (const bool writable : {false, true}) {
      for (size_t i = 0; i < sections_.size(); ++i) {
        bool wanted = false;
        ASTER_TRY(check_section(sections_[i], &wanted));
        if (wanted && ((sections_[i].sh_flags & SHF_WRITE) != 0) == writable)
          ASTER_TRY(place(i, &end));
      }
      if (writable) break;
      stubs_ = align_up(end, kStubBytes);
      slots_ = stubs_ + symbols_.size() * kStubBytes;
      end = slots_ + symbols_.size() * kSlotBytes;
      if (end > kSizeLimit) return ELF_FAIL("too large");
      code_end_ = end = align_up(end, kPage);
    }
    total_ = align_up(end, kPage);
    return kOk;
  }

  Status check_section(const Elf64_Shdr& section, bool* wanted) const {
    if ((section.sh_flags & SHF_ALLOC) == 0 || section.sh_size == 0) return kOk;
    std::string_view name;
    if (!read_name(section_names_, section.sh_name, &name))
      return ELF_FAIL("a section without a name");
    if (name == ".eh_frame") return kOk;  // nothing unwinds through kernels
    const bool known = section.sh_type == SHT_PROGBITS || section.sh_type == SHT_NOBITS ||
                       section.sh_type == SHT_NOTE;
    constexpr uint64_t kRefused = SHF_TLS | SHF_COMPRESSED;
    constexpr uint64_t kBoth = SHF_WRITE | SHF_EXECINSTR;
    if (!known || (section.sh_flags & kRefused) != 0 || (section.sh_flags & kBoth) == kBoth) {
      return ELF_FAIL("a section of kind %u, flags %llx", section.sh_type,
                      static_cast<unsigned long long>(section.sh_flags));
    }
    *wanted = true;
    return kOk;
  }

  Status place(size_t index, uint64_t* end) {
    const Elf64_Shdr& section = sections_[index];
    const uint64_t alignment = section.sh_addralign == 0 ? 1 : section.sh_addralign;
    if ((alignment & (alignment - 1)) != 0 || alignment > kPage)
      return ELF_FAIL("a section's alignment");
    if (section.sh_size > kSizeLimit) return ELF_FAIL("too large");
    places_[index] = align_up(*end, alignment);
    *end = places_[index] + section.sh_size;
    return *end > kSizeLimit ? ELF_FAIL("too large") : kOk;
  }

  Status map() {
    void* base = mmap(nullptr, total_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED) return out_of_memory(total_);
    image_.base_ = base;  // unmapped with the image, also after a failure below
    image_.size_ = total_;
    base_ = static_cast<uint8_t*>(base);
    for (size_t i = 0; i < sections_.size(); ++i) {
      if (places_[i] == kNowhere || sections_[i].sh_type == SHT_NOBITS) continue;
      std::span<const uint8_t> part;
      if (!contents(sections_[i], &part)) return ELF_FAIL("a section lies outside of it");
      memcpy(base_ + places_[i], part.data(), part.size());
    }
    return kOk;
  }

  Status resolve_symbols() {
    ASTER_TRY(values_.resize(symbols_.size(), kNowhere));
    for (size_t i = 0; i < symbols_.size(); ++i) {
      const Elf64_Sym& symbol = symbols_[i];
      if (symbol.st_shndx == SHN_UNDEF) {
        ASTER_TRY(resolve_external(i));
      } else if (symbol.st_shndx < sections_.size() && places_[symbol.st_shndx] != kNowhere) {
        if (symbol.st_value > sections_[symbol.st_shndx].sh_size)
          return ELF_FAIL("a symbol outside its section");
        const unsigned type = ELF64_ST_TYPE(symbol.st_info);
        if (type == STT_TLS || type == STT_GNU_IFUNC) return ELF_FAIL("a symbol of kind %u", type);
        values_[i] = reinterpret_cast<uint64_t>(base_) + places_[symbol.st_shndx] + symbol.st_value;
      }  // others (files, absolute, common) have no address: using one fails
      memcpy(base_ + slots_ + i * kSlotBytes, &values_[i], kSlotBytes);
    }
    return kOk;
  }

  Status resolve_external(size_t index) {
    const Elf64_Sym& symbol = symbols_[index];
    if (symbol.st_name == 0) return kOk;  // the null symbol
    std::string_view name;
    if (!read_name(symbol_names_, symbol.st_name, &name))
      return ELF_FAIL("a symbol's name lies outside of it");
    if (name == "_GLOBAL_OFFSET_TABLE_") return kOk;  // gcc names it without using it
    const uint64_t address = external_address(name);
    if (address == 0) {
      return ELF_FAIL("refers to '%.*s'", static_cast<int>(name.size() < 64 ? name.size() : 64),
                      name.data());
    }
    values_[index] = address;
    // The function may be farther away than a 32-bit displacement reaches.
    const uint8_t jump[6] = {0xff, 0x25, 0, 0, 0, 0};
    uint8_t* stub = base_ + stubs_ + index * kStubBytes;
    memcpy(stub, jump, sizeof(jump));
    memcpy(stub + sizeof(jump), &address, sizeof(address));
    return kOk;
  }

  Status relocate(const Elf64_Shdr& table) {
    if (table.sh_info >= sections_.size()) return ELF_FAIL("relocations of no section");
    if (places_[table.sh_info] == kNowhere) return kOk;
    const Elf64_Shdr& target = sections_[table.sh_info];
    if (target.sh_type == SHT_NOBITS) return ELF_FAIL("relocations of an empty section");
    Vec<Elf64_Rela> entries(symbols_.memory());
    ASTER_TRY(read_records(object_, table.sh_offset, table.sh_size / sizeof(Elf64_Rela), &entries));
    for (const Elf64_Rela& entry : entries) ASTER_TRY(apply(entry, target, places_[table.sh_info]));
    return kOk;
  }

  // Arithmetic wraps: addends are whatever the file says, and what does not fit is refused.
  Status apply(const Elf64_Rela& entry, const Elf64_Shdr& target, uint64_t place) {
    const uint64_t type = ELF64_R_TYPE(entry.r_info);
    const uint64_t index = ELF64_R_SYM(entry.r_info);
    if (type == R_X86_64_NONE) return kOk;
    const size_t width = type == R_X86_64_64 || type == R_X86_64_PC64 ? 8 : 4;
    if (target.sh_size < width || entry.r_offset > target.sh_size - width) {
      return ELF_FAIL("a relocation outside its section");
    }
    if (index >= symbols_.size() || values_[index] == kNowhere)
      return ELF_FAIL("a relocation to no symbol");
    uint8_t* const where = base_ + place + entry.r_offset;
    const uint64_t addend = static_cast<uint64_t>(entry.r_addend);
    const uint64_t relative = addend - reinterpret_cast<uint64_t>(where);
    uint64_t value = 0;
    switch (type) {
      case R_X86_64_64:
        value = values_[index] + addend;
        break;
      case R_X86_64_PC64:
        value = values_[index] + relative;
        break;
      case R_X86_64_PC32:
      case R_X86_64_PLT32:
        value = (symbols_[index].st_shndx == SHN_UNDEF ? at(stubs_ + index * kStubBytes)
                                                       : values_[index]) +
                relative;
        break;
      case R_X86_64_GOTPCREL:
      case R_X86_64_GOTPCRELX:
      case R_X86_64_REX_GOTPCRELX:
        value = at(slots_ + index * kSlotBytes) + relative;
        break;
      default:
        return ELF_FAIL("a relocation of kind %llu", static_cast<unsigned long long>(type));
    }
    if (width == 4 && !fits_32(static_cast<int64_t>(value)))
      return ELF_FAIL("a relocation out of reach");
    memcpy(where, &value, width);
    return kOk;
  }

  uint64_t at(uint64_t offset) const { return reinterpret_cast<uint64_t>(base_) + offset; }

  bool is_function(const Elf64_Sym& symbol) const {
    return symbol.st_shndx != SHN_UNDEF && symbol.st_shndx < sections_.size() &&
           places_[symbol.st_shndx] != kNowhere &&
           (sections_[symbol.st_shndx].sh_flags & SHF_EXECINSTR) != 0 &&
           ELF64_ST_TYPE(symbol.st_info) == STT_FUNC &&
           ELF64_ST_BIND(symbol.st_info) != STB_LOCAL &&
           symbol.st_value < sections_[symbol.st_shndx].sh_size;
  }

  Status collect_functions() {
    ASTER_TRY(image_.names_.append(reinterpret_cast<const char*>(symbol_names_.data()),
                                   symbol_names_.size()));
    const std::span<const uint8_t> kept = as_bytes(image_.names_.data(), image_.names_.size());
    for (size_t i = 0; i < symbols_.size(); ++i) {
      if (!is_function(symbols_[i])) continue;
      std::string_view name;
      if (!read_name(kept, symbols_[i].st_name, &name))
        return ELF_FAIL("a symbol's name lies outside of it");
      ASTER_TRY(image_.functions_.set(name, reinterpret_cast<void*>(values_[i])));
    }
    return kOk;
  }

  Status protect() {
    if (code_end_ != 0 && mprotect(base_, code_end_, PROT_READ | PROT_EXEC) != 0) {
      return ASTER_FAIL(kUNSUPPORTED, "the system does not let memory become executable");
    }
    return kOk;
  }

  Image& image_;
  std::span<const uint8_t> object_;
  Vec<Elf64_Shdr> sections_;
  Vec<uint64_t> places_;  // offset in the mapping of each section
  Vec<Elf64_Sym> symbols_;
  Vec<uint64_t> values_;  // address of each symbol
  std::span<const uint8_t> section_names_;
  std::span<const uint8_t> symbol_names_;
  uint8_t* base_ = nullptr;
  uint64_t stubs_ = 0;     // one for each symbol, used by the external ones
  uint64_t slots_ = 0;     // offset table, one slot for each symbol
  uint64_t code_end_ = 0;  // up to here pages become executable
  uint64_t total_ = 0;
};

uint64_t NameHash::operator()(std::string_view name) const {
  uint64_t state = name.size();
  for (; name.size() >= 8; name.remove_prefix(8)) {
    uint64_t word;
    memcpy(&word, name.data(), 8);
    state = hash_mix(state, word);
  }
  uint64_t rest = 0;
  if (!name.empty()) memcpy(&rest, name.data(), name.size());
  return hash_mix(state, rest);
}

Image::Image(Image&& other) noexcept
    : base_(std::exchange(other.base_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      shared_(std::exchange(other.shared_, nullptr)),
      shared_file_(std::move(other.shared_file_)),
      names_(std::move(other.names_)),
      functions_(std::move(other.functions_)) {}

void Image::unload() {
  if (base_ != nullptr) munmap(base_, size_);
  if (shared_ != nullptr) dlclose(shared_);
  shared_file_.reset();
  base_ = shared_ = nullptr;
  size_ = 0;
  functions_.clear();
  names_.clear();
}

Status Image::load(std::span<const uint8_t> object) {
  unload();
#if defined(__x86_64__)
  const Status status = Loader(*this, object, names_.memory()).run();
  if (!status.ok()) unload();
  return status;
#else
  return ASTER_FAIL(kUNSUPPORTED, "object files of this machine are loaded as shared objects");
#endif
}

Status Image::load_shared(std::span<const uint8_t> object) {
  unload();
  Descriptor file = open_memory_file("aster-kernels");
  if (!file.valid() || !write_all(file.get(), object)) {
    return ASTER_FAIL(kDEVICE, "cannot hold %zu bytes in a file in memory", object.size());
  }
  char path[48];
  snprintf(path, sizeof(path), "/proc/self/fd/%d", file.get());
  shared_ = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (shared_ == nullptr) {
    const char* reason = dlerror();
    return ASTER_FAIL(kUNSUPPORTED, "cannot load compiled kernels: %s",
                      reason != nullptr ? reason : "unknown reason");
  }
  shared_file_ = std::move(file);
  size_ = object.size();
  return kOk;
}

bool Image::has(const void* function) const {
  for (const auto& entry : functions_) {
    if (entry.value == function) return true;
  }
  return false;
}

void* Image::find(std::string_view name) const {
  if (shared_ == nullptr) return functions_.get(name, nullptr);
  char terminated[256];
  if (name.size() >= sizeof(terminated)) return nullptr;
  memcpy(terminated, name.data(), name.size());
  terminated[name.size()] = '\0';
  return dlsym(shared_, terminated);
}

bool can_map_code() {
#if defined(__x86_64__)
  void* page = mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return false;
  const bool allowed = mprotect(page, kPage, PROT_READ | PROT_EXEC) == 0;
  munmap(page, kPage);
  return allowed;
#else
  return false;
#endif
}

}  // namespace aster::runtime::cpu
