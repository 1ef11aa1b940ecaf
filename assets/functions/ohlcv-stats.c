/*
 * Sums up OHLCV rows: one JSON line about all rows on standard input, in any order of time.
 *
 * A row needs a timestamp and a close. A missing high or low is the close, a missing volume is 0.
 * Lines that are not such a row are counted as skipped.
 */
#include "rows.h"

struct row {
    struct moment moment;
    double high, low, close, volume;
};

/* Reads `line` into `row`. Returns whether it has what a row needs. */
static int read_row(const char *line, struct row *row) {
    struct member member = {.key = NULL};
    int status, has_close = 0;
    row->moment.length = 0;
    row->high = row->low = NAN;
    row->volume = 0;
    while ((status = next_member(&line, &member)) == 1) {
        read_moment(&member, &row->moment);
        if (member.kind != NUMBER) continue;
        if (is_key(&member, "high")) row->high = member.number;
        if (is_key(&member, "low")) row->low = member.number;
        if (is_key(&member, "volume")) row->volume = member.number;
        if (is_key(&member, "close")) {
            row->close = member.number;
            has_close = 1;
        }
    }
    if (isnan(row->high)) row->high = row->close;
    if (isnan(row->low)) row->low = row->close;
    return status == 0 && has_close && row->moment.length > 0;
}

/* The standard deviation of the log returns (of a sample: n - 1), or NAN with fewer than two. */
static double return_deviation(const struct row *rows, size_t n_rows) {
    double mean = 0, squares = 0;
    size_t n = 0;
    for (size_t i = 1; i < n_rows; i++) {
        if (rows[i - 1].close <= 0 || rows[i].close <= 0) continue;
        double step = log(rows[i].close / rows[i - 1].close), delta = step - mean;
        mean += delta / (double)++n;
        squares += delta * (step - mean);
    }
    return n < 2 ? NAN : sqrt(squares / (double)(n - 1));
}

static void print_number(const char *key, double number) {
    char text[400];
    printf(",\"%s\":%s", key, isfinite(number) ? decimal(number, text) : "null");
}

static void print_time(const char *key, const struct row *row) {
    printf(",\"%s\":\"%.*s\"", key, (int)row->moment.length, row->moment.text);
}

int main(void) {
    const char *rest = read_all(), *line;
    struct row *rows = NULL;
    size_t n_rows = 0, capacity = 0, n_skipped = 0, line_idx = 0;
    while ((line = next_line(&rest)) != NULL) {
        rows = room_for_one(rows, n_rows, &capacity, sizeof *rows);
        rows[n_rows].moment.line_idx = line_idx++;
        if (read_row(line, &rows[n_rows])) n_rows++;
        else n_skipped++;
    }
    if (n_rows == 0) {
        fprintf(stderr, "no rows with a timestamp and a close on standard input (%zu lines skipped)\n",
                n_skipped);
        return 1;
    }
    qsort(rows, n_rows, sizeof *rows, compare_moments);

    double closes = 0, volume = 0, traded = 0, low = rows[0].low, high = rows[0].high;
    for (size_t i = 0; i < n_rows; i++) {
        closes += rows[i].close;
        volume += rows[i].volume;
        traded += rows[i].volume * ((rows[i].high + rows[i].low + rows[i].close) / 3);
        low = fmin(low, rows[i].low);
        high = fmax(high, rows[i].high);
    }
    printf("{\"n\":%zu,\"skipped\":%zu", n_rows, n_skipped);
    print_time("first", &rows[0]);
    print_time("last", &rows[n_rows - 1]);
    print_number("mean_close", closes / (double)n_rows);
    print_number("min_low", low);
    print_number("max_high", high);
    print_number("vwap", volume > 0 ? traded / volume : NAN);
    print_number("return_deviation", return_deviation(rows, n_rows));
    print_number("volume", volume);
    puts("}");
    return 0;
}
