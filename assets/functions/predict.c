/*
 * Predicts a column some rows ahead, as one honest and slightly different model per worker.
 *
 * Rows come on standard input; MODEL, VALUE, HORIZON, LABELS, THRESHOLD, SEED and PEER_ID are
 * environment variables that README.md tells about. With LABELS the answer is a probability for
 * each label, else the value itself.
 */
#include "hash.h"
#include "rows.h"

#define HORIZON_MAX 100000
#define WINDOW_MIN 12
#define WINDOW_SPAN 49
#define LABELS_MAX 3
#define SHARES 1000000 /* probabilities are printed in whole millionths, so that they sum to 1 */
#define FLOOR 0.02     /* the part of belief spread evenly: no label is called impossible */
#define DAMPING 0.8    /* the part of a move that momentum expects to go on */
#define DAY_SECONDS 86400

/* What makes one worker's model differ from another's. */
struct character {
    size_t window;    /* rows looked back on by mean, drift, trend and the estimate of noise */
    double smoothing; /* the weight of the newest row in ema */
};

struct series {
    double *values; /* oldest first */
    size_t n_values;
    long newest_second; /* of the newest row's day, in UTC; 0 where its time cannot be read */
};

struct point {
    struct moment moment;
    double value;
};

static const char *variable(const char *name, const char *otherwise) {
    const char *value = getenv(name);
    return value == NULL || *value == '\0' ? otherwise : value;
}

static double number_of(const char *name, const char *otherwise, double min, double max) {
    const char *text = variable(name, otherwise);
    char *end;
    double number = strtod(text, &end);
    if (*end != '\0' || !(number >= min && number <= max)) {
        fprintf(stderr, "%s must be a number from %g to %g\n", name, min, max);
        exit(1);
    }
    return number;
}

/*
 * WINDOW rows, else 12 to 60, and a smoothing of 0.1 to 0.6, by the hash of SEED and PEER_ID.
 */
static struct character character(void) {
    uint64_t hash = hash_text(HASH_START, variable("SEED", ""));
    hash = hash_finish(hash_text(hash, variable("PEER_ID", "")));
    struct character chosen = {
        .window = WINDOW_MIN + (size_t)(hash % WINDOW_SPAN),
        .smoothing = 0.1 + 0.5 * (double)(hash >> 40) / (double)(1 << 24),
    };
    double window = number_of("WINDOW", "0", 0, HORIZON_MAX);
    if (window >= 2) chosen.window = (size_t)window;
    return chosen;
}

/* Reads the number of column `key` (any column, where NULL, and then tells which) of `line`. */
static int read_point(const char *line, const char *key, struct point *point,
                      struct member *found) {
    struct member member = {.key = NULL};
    int status, has_value = 0;
    point->moment.text = "";
    point->moment.length = 0;
    while ((status = next_member(&line, &member)) == 1) {
        read_moment(&member, &point->moment);
        if (member.kind != NUMBER || has_value || (key != NULL && !is_key(&member, key))) continue;
        point->value = member.number;
        has_value = 1;
        *found = member;
    }
    return status == 0 && has_value;
}

/* The column to predict: VALUE, else `close` where a row has it, else the first with a number. */
static const char *column(const char *text) {
    const char *rest = text, *line, *key = getenv("VALUE");
    struct member member, first = {.key = NULL};
    struct point point;
    if (key != NULL && *key != '\0') return key;
    while ((line = next_line(&rest)) != NULL) {
        if (read_point(line, "close", &point, &member)) return "close";
        if (first.key == NULL && read_point(line, NULL, &point, &member)) first = member;
    }
    if (first.key == NULL) fail("no rows with a number on standard input");
    return strndup(first.key, first.key_length);
}

/* The second of the day of an RFC 3339 text in UTC, such as 2026-01-01T10:20:30Z. */
static long second_of_day(struct moment moment) {
    int hour, minute, second;
    if (moment.length < 19) return 0;
    if (sscanf(moment.text + 11, "%2d:%2d:%2d", &hour, &minute, &second) != 3) return 0;
    return hour * 3600L + minute * 60L + second;
}

static struct series read_series(void) {
    const char *text = read_all(), *rest = text, *line, *key = column(text);
    struct member member;
    struct point *points = NULL;
    size_t n_points = 0, capacity = 0, line_idx = 0;
    while ((line = next_line(&rest)) != NULL) {
        points = room_for_one(points, n_points, &capacity, sizeof *points);
        points[n_points].moment.line_idx = line_idx++;
        if (read_point(line, key, &points[n_points], &member)) n_points++;
    }
    if (n_points == 0) {
        fprintf(stderr, "no rows with a number in column %s on standard input\n", key);
        exit(1);
    }
    qsort(points, n_points, sizeof *points, compare_moments);
    struct series series = {
        .values = malloc(n_points * sizeof(double)),
        .n_values = n_points,
        .newest_second = second_of_day(points[n_points - 1].moment),
    };
    if (series.values == NULL) fail("out of memory");
    for (size_t i = 0; i < n_points; i++) series.values[i] = points[i].value;
    return series;
}

/* The newest `window` values, or all where there are fewer. */
static struct series newest(struct series series, size_t window) {
    size_t n_values = series.n_values < window ? series.n_values : window;
    series.values += series.n_values - n_values;
    series.n_values = n_values;
    return series;
}

static double mean(struct series series) {
    double sum = 0;
    for (size_t i = 0; i < series.n_values; i++) sum += series.values[i];
    return sum / (double)series.n_values;
}

static double ema(struct series series, double smoothing) {
    double level = series.values[0];
    for (size_t i = 1; i < series.n_values; i++) level += smoothing * (series.values[i] - level);
    return level;
}

/* The line of least squares through `series`, read `horizon` rows after its last. */
static double trend(struct series series, double horizon) {
    double center = (double)(series.n_values - 1) / 2, height = mean(series), up = 0, along = 0;
    for (size_t i = 0; i < series.n_values; i++) {
        double x = (double)i - center;
        up += x * (series.values[i] - height);
        along += x * x;
    }
    return along == 0 ? height : height + up / along * (center + horizon);
}

/* A number close to normally distributed, which follows from SEED and the newest value alone. */
static double luck(struct series series) {
    char text[400];
    uint64_t hash = hash_text(HASH_START, variable("SEED", ""));
    hash = hash_finish(hash_text(hash, decimal(series.values[series.n_values - 1], text)));
    double sum = 0;
    for (int i = 0; i < 4; i++) sum += (double)(hash >> (16 * i) & 0xffff) / 65536;
    return (sum - 2) * sqrt(3);
}

/* Without the newest STALE rows, as one whose feed lags; at least one row is left. */
static struct series without_newest(struct series series, size_t n_rows) {
    series.n_values -= n_rows < series.n_values ? n_rows : series.n_values - 1;
    return series;
}

static double predict(struct series series, struct character character, double horizon) {
    const char *model = variable("MODEL", "ema");
    double last = series.values[series.n_values - 1];
    struct series known = without_newest(series, (size_t)number_of("STALE", "0", 0, HORIZON_MAX));
    struct series part = newest(known, character.window);
    if (strcmp(model, "momentum") == 0) {
        return last + DAMPING * (trend(part, horizon) - trend(part, 0));
    }
    if (strcmp(model, "reversion") == 0) {
        return last + number_of("RETURN", "0.9", 0, 1) * (mean(part) - last);
    }
    if (strcmp(model, "seasonal") == 0) return last;
    if (strcmp(model, "last") == 0) return last;
    if (strcmp(model, "mean") == 0) return mean(part);
    if (strcmp(model, "ema") == 0) return ema(known, character.smoothing);
    if (strcmp(model, "trend") == 0) return trend(part, horizon);
    if (strcmp(model, "drift") != 0) {
        fail("MODEL must be last, mean, drift, ema, trend, momentum, reversion or seasonal");
    }
    if (part.n_values < 2) return last;
    double newest_known = part.values[part.n_values - 1];
    return last + horizon * (newest_known - part.values[0]) / (double)(part.n_values - 1);
}

/* How far a value strays in `horizon` rows: a random walk of its steps. */
static double noise(struct series series, double horizon) {
    double squares = 0;
    for (size_t i = 1; i < series.n_values; i++) {
        double step = series.values[i] - series.values[i - 1];
        squares += step * step;
    }
    return series.n_values < 2 ? 0 : sqrt(squares / (double)(series.n_values - 1) * horizon);
}

/* The probability that a move of mean `move` and deviation `noise` ends below `bound`. */
static double below(double bound, double move, double noise) {
    if (noise == 0) return move == bound ? 0.5 : move < bound;
    return 0.5 * erfc((move - bound) / (noise * M_SQRT2));
}

/* How far a value strayed in `horizon` rows: the deviation of such moves. */
static double noise_of_moves(struct series series, double horizon) {
    size_t step = (size_t)horizon;
    double squares = 0;
    if (series.n_values <= step) return noise(series, horizon);
    for (size_t i = step; i < series.n_values; i++) {
        double move = series.values[i] - series.values[i - step];
        squares += move * move;
    }
    return sqrt(squares / (double)(series.n_values - step));
}

/* The deviation of a prediction, as NOISE_OF and SPREAD say; by the time of day for `seasonal`. */
static double spread(struct series series, struct character character, double horizon) {
    int is_of_moves = strcmp(variable("NOISE_OF", "steps"), "moves") == 0;
    double deviation = is_of_moves ? noise_of_moves(series, horizon)
                                   : noise(newest(series, character.window), horizon);
    if (strcmp(variable("MODEL", "ema"), "seasonal") == 0) {
        double share = (double)series.newest_second / DAY_SECONDS - 0.3;
        deviation *= 1 + 0.5 * sin(2 * M_PI * share);
    }
    return deviation * number_of("SPREAD", "1", 0.01, 100);
}

/* Splits `labels` at its commas into `names`. Each must be up, down or flat, and at most once. */
static size_t split_labels(char *labels, const char *names[LABELS_MAX]) {
    size_t n_labels = 0;
    for (char *name = strtok(labels, ", "); name != NULL; name = strtok(NULL, ", ")) {
        int is_new = !strcmp(name, "up") || !strcmp(name, "down") || !strcmp(name, "flat");
        for (size_t i = 0; i < n_labels; i++) is_new &= strcmp(name, names[i]) != 0;
        if (!is_new) fail("LABELS must be some of up, down and flat, each once");
        names[n_labels++] = name;
    }
    if (n_labels == 0) fail("LABELS must be some of up, down and flat, each once");
    return n_labels;
}

static void print_share(long share) {
    if (share == SHARES) {
        printf("\"1\"");
        return;
    }
    char text[16];
    int length = snprintf(text, sizeof text, "0.%06ld", share);
    while (length > 3 && text[length - 1] == '0') length--;
    printf("\"%.*s\"", length, text);
}

/* Prints a probability for each label. What rounding leaves over goes to the likeliest. */
static void print_classes(char *labels, double move, double noise) {
    const char *names[LABELS_MAX];
    double beliefs[LABELS_MAX], sum = 0;
    long shares[LABELS_MAX], left = SHARES;
    size_t n_labels = split_labels(labels, names), likeliest = 0;
    double threshold = number_of("THRESHOLD", "0.001", 0, 1e6);
    int has_flat = 0;
    for (size_t i = 0; i < n_labels; i++) has_flat |= *names[i] == 'f';
    if (!has_flat) threshold = 0;
    double down = below(-threshold, move, noise), up = 1 - below(threshold, move, noise);
    for (size_t i = 0; i < n_labels; i++) {
        double belief = *names[i] == 'u' ? up : *names[i] == 'd' ? down : 1 - up - down;
        beliefs[i] = fmax(belief, 0) + FLOOR;
        sum += beliefs[i];
        if (beliefs[i] > beliefs[likeliest]) likeliest = i;
    }
    for (size_t i = 0; i < n_labels; i++) {
        shares[i] = lround(beliefs[i] / sum * SHARES);
        left -= shares[i];
    }
    shares[likeliest] += left;
    printf("{\"values\":{");
    for (size_t i = 0; i < n_labels; i++) {
        printf("%s\"%s\":", i > 0 ? "," : "", names[i]);
        print_share(shares[i]);
    }
    puts("}}");
}

int main(void) {
    double horizon = number_of("HORIZON", "1", 1, HORIZON_MAX);
    struct character chosen = character();
    struct series series = read_series();
    double predicted = predict(series, chosen, horizon), last = series.values[series.n_values - 1];
    double deviation = spread(series, chosen, horizon);
    predicted += number_of("LUCK", "0", 0, 100) * luck(series) * deviation;
    char *labels = getenv("LABELS"), text[400];
    if (!isfinite(predicted)) fail("the prediction is not a finite number");
    if (labels == NULL || *labels == '\0') {
        printf("{\"value\":\"%s\"}\n", decimal(predicted, text));
        return 0;
    }
    double size = fabs(last);
    if (size == 0) {
        print_classes(labels, 0, 0);
    } else {
        print_classes(labels, (predicted - last) / size, deviation / size);
    }
    return 0;
}
