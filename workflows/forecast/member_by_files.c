/* A member of the ensemble in the usual way: it writes each field into a file of its own, and renames the file when it is whole.
 *
 *     build/member_by_files FOLDER NUMBER LON LAT FIELDS JET DIFFUSION BUMPS SPREAD DELTA STEPS       DELTA in seconds
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "atmosphere.h"

static FILE *opened(const char *name) {
    FILE *file = fopen(name, "wb");
    if (file == NULL) {
        perror(name);
        exit(1);
    }
    return file;
}

static void close_as(FILE *file, const char *before, const char *after) {
    if (fclose(file) != 0 || rename(before, after) != 0) {
        perror(after);
        exit(1);
    }
}

/* Writes an array in numpy's format: a magic word, a header padded to 64 bytes, the numbers. */
static void write_array(const char *folder, const char *name, const double *values, size_t rows, size_t columns) {
    char before[1000], after[1000], header[119];
    const int length = snprintf(header, sizeof header, "{'descr': '<f8', 'fortran_order': False, 'shape': (%zu, %zu), }", rows, columns);
    memset(header + length, ' ', sizeof header - (size_t)length);
    header[sizeof header - 1] = '\n';
    snprintf(before, sizeof before, "%s/.%s", folder, name);
    snprintf(after, sizeof after, "%s/%s", folder, name);
    FILE *file = opened(before);
    fputs("\x93NUMPY\x01", file);
    fputc(0, file);
    fputc((int)sizeof header, file);
    fputc(0, file);
    fwrite(header, 1, sizeof header, file);
    if (fwrite(values, sizeof *values, rows * columns, file) != rows * columns) {
        perror(before);
        exit(1);
    }
    close_as(file, before, after);
}

static void write_text(const char *folder, const char *name, const char *text) {
    char before[1000], after[1000];
    snprintf(before, sizeof before, "%s/.%s", folder, name);
    snprintf(after, sizeof after, "%s/%s", folder, name);
    FILE *file = opened(before);
    fputs(text, file);
    close_as(file, before, after);
}

int main(int count, char **words) {
    if (count != 12) {
        fputs("usage: member_by_files FOLDER NUMBER LON LAT FIELDS JET DIFFUSION BUMPS SPREAD DELTA STEPS\n", stderr);
        return 2;
    }
    const char *folder = words[1];
    const unsigned number = (unsigned)atoi(words[2]);
    const size_t fields = (size_t)atol(words[5]);
    const double delta = atof(words[10]);
    const int steps = atoi(words[11]);
    atmosphere *air = atmosphere_new((size_t)atol(words[3]), (size_t)atol(words[4]), atof(words[6]), atof(words[7]));
    double *values = air == NULL ? NULL : malloc(air->lon * air->lat * sizeof *values);
    if (values == NULL) {
        fputs("there is no memory for this grid, or it has fewer than 4 rows or columns\n", stderr);
        return 1;
    }
    double area[4], grid[2];
    char name[100], text[300];
    field_grid(air, area, grid);
    snprintf(text, sizeof text, "[[%.17g, %.17g, %.17g, %.17g], [%.17g, %.17g]]\n", area[0], area[1], area[2], area[3], grid[0], grid[1]);
    snprintf(name, sizeof name, "grid-%u.json", number);
    write_text(folder, name, text);

    atmosphere_perturb(air, number, atoi(words[8]), atof(words[9]));
    for (int step = 0; step <= steps; ++step) {
        if (step > 0) atmosphere_advance(air, delta, atmosphere_step(air));
        for (size_t n = 0; n < fields; ++n) {
            const field_name field = field_at(n);
            field_compute(air, field, values);
            snprintf(name, sizeof name, "%04d-%03u-%s-%d.npy", (int)(step * delta / 3600.0 + 0.5), number, field.param, field.level);
            write_array(folder, name, values, air->lat, air->lon);
        }
    }
    snprintf(name, sizeof name, "done-%u", number);
    write_text(folder, name, "");
    free(values);
    atmosphere_free(air);
    return 0;
}
