/* A hash that spreads well: FNV-1a over the bytes, then the finalizer of SplitMix64. */
#ifndef HASH_H
#define HASH_H

#include <stdint.h>

#define HASH_START 0xcbf29ce484222325u

/* Takes `text` and its terminator into `hash`, so that "a" + "bc" differs from "ab" + "c". */
static uint64_t hash_text(uint64_t hash, const char *text) {
    do {
        hash = (hash ^ (unsigned char)*text) * 0x100000001b3u;
    } while (*text++ != '\0');
    return hash;
}

static uint64_t hash_finish(uint64_t hash) {
    hash = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9u;
    hash = (hash ^ (hash >> 27)) * 0x94d049bb133111ebu;
    return hash ^ (hash >> 31);
}

#endif
