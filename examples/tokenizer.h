/* GPT-2's tokens. They are numbered: first the bytes, those that print before the others, then what
 * each line of merges.txt joins, then the end of a text. */
#ifndef ASTER_EXAMPLES_TOKENIZER_H
#define ASTER_EXAMPLES_TOKENIZER_H

#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { MOST_TOKENS = 1 << 16, MOST_BYTES = 1 << 21, SLOTS = 1 << 18, LONGEST_WORD = 1024 };

static struct {
  int count;
  struct {
    const char *text;
    int length;
  } tokens[MOST_TOKENS];
  int slots[SLOTS]; /* 1 + the number of a token, found by its bytes */
  char bytes[MOST_BYTES];
  int used;
} vocabulary;

static int *slot_of(const char *text, int length) {
  uint32_t hash = 2166136261u;
  for (int i = 0; i < length; ++i) hash = (hash ^ (unsigned char)text[i]) * 16777619u;
  for (uint32_t at = hash;; ++at) {
    int *slot = &vocabulary.slots[at % SLOTS];
    const int number = *slot - 1;
    if (number < 0) return slot;
    if (vocabulary.tokens[number].length == length &&
        memcmp(vocabulary.tokens[number].text, text, (size_t)length) == 0) {
      return slot;
    }
  }
}

static void add_token(const char *text, int length) {
  char *copy = vocabulary.bytes + vocabulary.used;
  if (vocabulary.count == MOST_TOKENS || vocabulary.used + length > MOST_BYTES) return;
  memcpy(copy, text, (size_t)length);
  vocabulary.used += length;
  vocabulary.tokens[vocabulary.count].text = copy;
  vocabulary.tokens[vocabulary.count].length = length;
  *slot_of(copy, length) = ++vocabulary.count;
}

/* 0 where the file cannot be read. */
static int read_merges(const char *path) {
  char line[4096], joined[4096], byte_of[512] = {0};
  FILE *file = fopen(path, "rb");
  if (file == NULL) return 0;
  for (int pass = 0, letter = 256; pass < 2; ++pass) { /* bytes that print stand for themselves */
    for (int b = 0; b < 256; ++b) {
      const char byte = (char)b;
      if (((b >= 33 && b <= 126) || (b >= 161 && b != 173)) != (pass == 0)) continue;
      byte_of[pass == 0 ? b : letter++] = byte;
      add_token(&byte, 1);
    }
  }
  while (fgets(line, sizeof(line), file)) {
    int length = 0;
    if (strncmp(line, "#version", 8) == 0) continue;
    for (const unsigned char *c = (const unsigned char *)line; *c && *c != '\n'; ++c) {
      if (*c == ' ' || *c == '\r') continue;
      const int letter = *c < 128 ? *c : (*c & 31) << 6 | (c[1] & 63); /* UTF-8, below 512 */
      if (*c >= 128 && *++c == 0) break;
      joined[length++] = byte_of[letter % 512];
    }
    if (length > 0) add_token(joined, length);
  }
  add_token("<|endoftext|>", 13);
  fclose(file);
  return 1;
}

/* Letters, digits, white space or the rest; what is beyond ASCII counts as letters. */
static int kind_of(char c) {
  const int byte = (unsigned char)c;
  return byte >= 128 || isalpha(byte) ? 0 : isdigit(byte) ? 1 : isspace(byte) ? 2 : 3;
}

/* How much of a text tokens do not cross: an ending like 's, or a run of one kind, with the space
 * before it. */
static int word_length(const char *text) {
  static const char *const endings[] = {"'s", "'t", "'m", "'d", "'re", "'ve", "'ll"};
  for (size_t i = 0; i < sizeof(endings) / sizeof(*endings); ++i) {
    if (strncmp(text, endings[i], strlen(endings[i])) == 0) return (int)strlen(endings[i]);
  }
  const int space = text[0] == ' ' && text[1] && kind_of(text[1]) != 2;
  int length = space;
  while (length < LONGEST_WORD && text[length] && kind_of(text[length]) == kind_of(text[space])) {
    ++length;
  }
  return kind_of(text[space]) == 2 && text[length] && length > 1 ? length - 1 : length;
}

/* The tokens of a text, up to capacity: in each word, what was joined first is joined first. */
static int encode(int32_t *tokens, int capacity, const char *text) {
  int starts[LONGEST_WORD + 1], count = 0;
  while (*text) {
    int parts = word_length(text);
    for (int i = 0; i <= parts; ++i) starts[i] = i;
    for (;;) {
      int best = MOST_TOKENS, at = 0;
      for (int i = 0; i + 2 <= parts; ++i) {
        const int number = *slot_of(text + starts[i], starts[i + 2] - starts[i]) - 1;
        if (number >= 0 && number < best) best = number, at = i;
      }
      if (best == MOST_TOKENS) break;
      memmove(starts + at + 1, starts + at + 2, (size_t)(parts - at - 1) * sizeof(*starts));
      --parts;
    }
    for (int i = 0; i < parts && count < capacity; ++i) {
      tokens[count++] = *slot_of(text + starts[i], starts[i + 1] - starts[i]) - 1;
    }
    text += starts[parts];
  }
  return count;
}

#endif
