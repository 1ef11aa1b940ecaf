/* Rows on standard input: lines of flat JSON objects, as the dataset service sends them. */
#ifndef ROWS_H
#define ROWS_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum kind { NUMBER, STRING, OTHER };

/* One `"key": value` of an object. Texts point into the line and are not terminated. */
struct member {
    const char *key, *text;
    size_t key_length, text_length;
    enum kind kind;
    double number;
};

static const char *skip_space(const char *at) {
    return at + strspn(at, " \t\r");
}

/* Returns the character after the closing quote of the string that opens at `at`, or NULL. */
static const char *skip_string(const char *at) {
    for (at++; *at != '\0' && *at != '\n'; at++) {
        if (*at == '"') return at + 1;
        if (*at == '\\' && (*++at == '\0' || *at == '\n')) return NULL;
    }
    return NULL;
}

/* Returns the character after an array or object that opens at `at`, or NULL. */
static const char *skip_nested(const char *at) {
    int depth = 0;
    while (*at != '\0' && *at != '\n') {
        if (*at == '"') {
            if ((at = skip_string(at)) == NULL) return NULL;
            continue;
        }
        if (*at == '[' || *at == '{') depth++;
        if ((*at == ']' || *at == '}') && --depth == 0) return at + 1;
        at++;
    }
    return NULL;
}

static const char *skip_number(const char *at, double *number) {
    size_t length = strspn(at, "+-.0123456789eE");
    char *end;
    *number = strtod(at, &end);
    return length > 0 && end == at + length && isfinite(*number) ? end : NULL;
}

/* Reads the value at `at` into `member`. Returns the character after it, or NULL. */
static const char *read_value(const char *at, struct member *member) {
    const char *end;
    member->kind = OTHER;
    member->text = at;
    if (*at == '"') {
        member->kind = STRING;
        member->text = at + 1;
        end = skip_string(at);
    } else if (*at == '{' || *at == '[') {
        end = skip_nested(at);
    } else if (*at == '-' || (*at >= '0' && *at <= '9')) {
        member->kind = NUMBER;
        end = skip_number(at, &member->number);
    } else if (strncmp(at, "null", 4) == 0 || strncmp(at, "true", 4) == 0) {
        end = at + 4;
    } else {
        end = strncmp(at, "false", 5) == 0 ? at + 5 : NULL;
    }
    if (end != NULL) member->text_length = (size_t)(end - member->text) - (member->kind == STRING);
    return end;
}

/*
 * Reads the member after `member` of the object that the line at `*at` holds, and moves `*at` past
 * it. A `member` without a key asks for the first. Returns 1, or 0 at the object's end, or -1
 * where the line is no JSON object.
 */
static int next_member(const char **at, struct member *member) {
    int is_first = member->key == NULL;
    if (is_first && *(*at)++ != '{') return -1;
    *at = skip_space(*at);
    if (**at == '}') {
        *at = skip_space(*at + 1);
        return **at == '\n' || **at == '\0' ? 0 : -1;
    }
    if (!is_first) {
        if (**at != ',') return -1;
        *at = skip_space(*at + 1);
    }
    if (**at != '"') return -1;
    member->key = *at + 1;
    if ((*at = skip_string(*at)) == NULL) return -1;
    member->key_length = (size_t)(*at - member->key) - 1;
    *at = skip_space(*at);
    if (**at != ':') return -1;
    *at = read_value(skip_space(*at + 1), member);
    return *at == NULL ? -1 : 1;
}

static int is_key(const struct member *member, const char *key) {
    return strlen(key) == member->key_length && memcmp(key, member->key, member->key_length) == 0;
}

/* Returns where the next line that is not blank starts in `*rest`, and moves past it, or NULL. */
static const char *next_line(const char **rest) {
    while (**rest != '\0') {
        const char *line = skip_space(*rest);
        *rest = line + strcspn(line, "\n");
        if (**rest == '\n') ++*rest;
        if (*line != '\n' && *line != '\0') return line;
    }
    return NULL;
}

static void fail(const char *why) {
    fprintf(stderr, "%s\n", why);
    exit(1);
}

/* Grows `items` (of `size` bytes each) where its capacity is used up. */
static void *room_for_one(void *items, size_t n_items, size_t *capacity, size_t size) {
    if (n_items < *capacity) return items;
    *capacity = *capacity == 0 ? 256 : *capacity * 2;
    items = realloc(items, *capacity * size);
    if (items == NULL) fail("out of memory");
    return items;
}

/* Reads standard input to its end, terminated. A zero byte inside becomes a space. */
static char *read_all(void) {
    size_t capacity = 1 << 16, length = 0, n_read;
    char *text = malloc(capacity);
    if (text == NULL) fail("out of memory");
    while ((n_read = fread(text + length, 1, capacity - length - 1, stdin)) > 0) {
        length += n_read;
        if (length + 1 == capacity && (text = realloc(text, capacity *= 2)) == NULL) {
            fail("out of memory");
        }
    }
    for (size_t i = 0; i < length; i++) {
        if (text[i] == '\0') text[i] = ' ';
    }
    text[length] = '\0';
    return text;
}

/* When a row is, as its RFC 3339 text in UTC, and on which line it stands. */
struct moment {
    const char *text;
    size_t length, line_idx;
};

/*
 * Orders what begins with a `struct moment` by time, then by line, for qsort. Fractions may
 * differ in length: "…00Z" is before "…00.5Z".
 */
static int compare_moments(const void *a, const void *b) {
    const struct moment *left = a, *right = b;
    size_t left_length = left->length, right_length = right->length;
    if (left_length > 0 && left->text[left_length - 1] == 'Z') left_length--;
    if (right_length > 0 && right->text[right_length - 1] == 'Z') right_length--;
    size_t shorter = left_length < right_length ? left_length : right_length;
    int order = memcmp(left->text, right->text, shorter);
    if (order == 0) order = (left_length > right_length) - (left_length < right_length);
    if (order == 0) order = (left->line_idx > right->line_idx) - (left->line_idx < right->line_idx);
    return order;
}

/* Takes the time of the row, where `member` holds it. */
static void read_moment(const struct member *member, struct moment *moment) {
    if (member->kind == STRING && is_key(member, "timestamp")) {
        moment->text = member->text;
        moment->length = member->text_length;
    }
}

/* Writes `number` in the fewest digits that read back as the same number, without an exponent. */
static const char *decimal(double number, char text[400]) {
    int digits = 15;
    do {
        snprintf(text, 400, "%.*g", digits, number);
    } while (strtod(text, NULL) != number && ++digits <= 17);
    const char *exponent = strchr(text, 'e');
    if (exponent != NULL) {
        int places = (int)(strcspn(text, "e") - strspn(text, "-")) - 1 - atoi(exponent + 1);
        if (strchr(text, '.') != NULL) places--;
        if (places < 0) places = 0;
        snprintf(text, 400, "%.*f", places, number);
    }
    return text;
}

#endif
