/*
 * Greets, then tells its arguments, environment (sorted) and standard input.
 *
 * PEER_ID is left out: it is the one variable that differs from worker to worker, and this
 * function is the one whose results are to be equal everywhere.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern char **environ;

static int compare(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

int main(int n_arguments, char **arguments) {
    puts("Hello from WebAssembly");
    for (int i = 1; i < n_arguments; i++) printf("argument %d: %s\n", i, arguments[i]);

    size_t n_variables = 0;
    while (environ != NULL && environ[n_variables] != NULL) n_variables++;
    if (n_variables > 0) qsort(environ, n_variables, sizeof *environ, compare);
    for (size_t i = 0; i < n_variables; i++) {
        if (strncmp(environ[i], "PEER_ID=", 8) != 0) printf("environment: %s\n", environ[i]);
    }

    char chunk[4096];
    size_t n_read, n_total = 0;
    char last = '\n';
    while ((n_read = fread(chunk, 1, sizeof chunk, stdin)) > 0) {
        if (n_total == 0) puts("input:");
        fwrite(chunk, 1, n_read, stdout);
        n_total += n_read;
        last = chunk[n_read - 1];
    }
    if (last != '\n') putchar('\n');
    return 0;
}
