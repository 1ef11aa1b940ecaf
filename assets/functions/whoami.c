/*
 * Tells workers apart, so that their results fall into groups.
 *
 * `whoami` prints the end of the worker's PEER_ID: every worker is a group of its own. `whoami N`,
 * or the variable BUCKETS, prints the bucket, 0 to N-1, that the PEER_ID falls into: fewer groups
 * than workers.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hash.h"

#define BUCKETS_MAX 1000000
#define ID_SHOWN 8

static int fail(const char *why) {
    fprintf(stderr, "%s\n", why);
    return 1;
}

int main(int n_arguments, char **arguments) {
    const char *peer = getenv("PEER_ID");
    if (peer == NULL || *peer == '\0') {
        return fail("PEER_ID is not set: the worker does not say who it is");
    }

    const char *wanted = n_arguments > 1 ? arguments[1] : getenv("BUCKETS");
    if (wanted == NULL) {
        size_t length = strlen(peer);
        printf("{\"peer\":\"%s\"}\n", length > ID_SHOWN ? peer + length - ID_SHOWN : peer);
        return 0;
    }
    char *end;
    long n_buckets = strtol(wanted, &end, 10);
    if (*end != '\0' || n_buckets < 1 || n_buckets > BUCKETS_MAX) {
        return fail("the number of buckets must be from 1 to 1000000");
    }
    uint64_t hash = hash_finish(hash_text(HASH_START, peer));
    printf("{\"bucket\":%d,\"of\":%ld}\n", (int)(hash % (uint64_t)n_buckets), n_buckets);
    return 0;
}
