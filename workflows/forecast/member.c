/* A member of the ensemble, coupled: in each step of the forecast it puts a group of fields, which readers get all at once.
 *
 * It knows neither who reads them nor how many there are. A field that nobody selects goes nowhere.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <xmml.h>

#include "atmosphere.h"

static void check(xmml_status status) {
    if (status == XMML_OK) return;
    fprintf(stderr, "%s\n", xmml_error());
    exit(1);
}

static int64_t whole(xmml_instance *me, const char *name) {
    int64_t value;
    check(xmml_param_int(me, name, NULL, &value));
    return value;
}

static double number(xmml_instance *me, const char *name, const char *unit) {
    double value;
    check(xmml_param_double(me, name, unit, &value));
    return value;
}

/* Puts the fields of a step. Each is computed in memory that the readers on this host share: nothing copies it. */
static void put_fields(xmml_instance *me, const atmosphere *air, const char *date, size_t fields, long hour) {
    const size_t shape[2] = {air->lat, air->lon};
    double area[4], grid[2];
    char text[300];
    field_grid(air, area, grid);
    snprintf(text, sizeof text, "date=%s step=%ld number=%u total=%u type=%s area=[%.17g,%.17g,%.17g,%.17g] grid=[%.17g,%.17g]",
             date, hour, xmml_index(me), xmml_count(me), xmml_index(me) == 0 ? "cf" : "pf", area[0], area[1], area[2], area[3],
             grid[0], grid[1]);
    check(xmml_group_begin(me, "fields", text));
    for (size_t n = 0; n < fields; ++n) {
        const field_name name = field_at(n);
        void *memory;
        check(xmml_loan(me, XMML_F64, 2, shape, &memory));
        field_compute(air, name, memory);
        snprintf(text, sizeof text, "param=%s levtype=%s", name.param, name.levtype);
        if (name.level > 0) snprintf(text, sizeof text, "param=%s levtype=%s levelist=%d", name.param, name.levtype, name.level);
        check(xmml_put_array(me, "fields", XMML_F64, 2, shape, memory, text, NULL));
    }
    check(xmml_group_end(me, "fields", NULL));
}

int main(void) {
    xmml_instance *me;
    const char *date;
    check(xmml_join(&me));
    const int64_t fields = whole(me, "fields"), bumps = whole(me, "bumps");
    check(xmml_param_text(me, "date", &date));
    if (fields < 1 || fields > FIELDS) {
        xmml_fail(me, "there are 1 to 1234 fields a step");
        return 1;
    }
    for (int again; xmml_reuse(me, &again) == XMML_OK && again;) {
        atmosphere *air = atmosphere_new((size_t)whole(me, "lon"), (size_t)whole(me, "lat"), number(me, "jet", "m/s"),
                                         number(me, "diffusion", "m^2/s"));
        if (air == NULL) {
            xmml_fail(me, "there is no memory for this grid, or it has fewer than 4 rows or columns");
            return 1;
        }
        atmosphere_perturb(air, xmml_index(me), (int)bumps, number(me, "spread", "m"));
        for (double t; xmml_step(me, &t) == XMML_OK;) {
            put_fields(me, air, date, (size_t)fields, lround(t / 3600.0));
            atmosphere_advance(air, xmml_delta(me), atmosphere_step(air));
        }
        put_fields(me, air, date, (size_t)fields, lround(xmml_total(me) / 3600.0));
        atmosphere_free(air);
    }
    check(xmml_leave(&me));
    return 0;
}
