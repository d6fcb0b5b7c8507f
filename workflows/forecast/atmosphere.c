#include "atmosphere.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static const double PI = 3.14159265358979323846;
static const double RADIUS = 6371220.0;     /* m */
static const double ROTATION = 7.292e-5;    /* 1/s */
static const double GRAVITY = 9.80616;      /* m/s2 */
static const double DEPTH = 10000.0;        /* of the layer in the mean [m] */
static const double SOUTH = 10.0, NORTH = 80.0;
static const double GAS = 287.05;           /* of dry air [J/(kg K)] */

static double radians(double degrees) { return degrees * PI / 180.0; }

static double latitude_of(const atmosphere *air, double row) { return radians(SOUTH) + row * air->d_lat; }

static size_t size_of(const atmosphere *air) { return air->lon * (3 * air->lat + 1); }

/* ---------------------------------------------------------------------------------------------------------------- dynamics */

/* A state, or its change, as its three fields. */
typedef struct {
    double *h, *u, *v;
} parts;

static parts parts_of(const atmosphere *air, double *state) {
    const size_t cells = air->lon * air->lat;
    parts all = {state, state + cells, state + 2 * cells};
    return all;
}

/* Relative vorticity at the south-west corners of the cells [1/s]; free slip makes it zero at the walls. */
static void vorticity(const atmosphere *air, parts s, double *zeta) {
    const size_t n = air->lon;
    memset(zeta, 0, n * sizeof *zeta);
    memset(zeta + air->lat * n, 0, n * sizeof *zeta);
    for (size_t j = 1; j < air->lat; ++j)
        for (size_t i = 0; i < n; ++i) {
            const size_t west = i == 0 ? n - 1 : i - 1;
            const double around = (s.v[j * n + i] - s.v[j * n + west]) * air->dy -
                                  (s.u[j * n + i] * air->dx[j] - s.u[(j - 1) * n + i] * air->dx[j - 1]);
            zeta[j * n + i] = around / (air->dx_v[j] * air->dy);
        }
}

static void tendency(const atmosphere *air, double *state, double *change) {
    const size_t n = air->lon, m = air->lat, cells = n * m;
    const parts s = parts_of(air, state), d = parts_of(air, change);
    double *flux_u = air->work, *flux_v = flux_u + cells, *zeta = flux_v + cells + n, *head = zeta + cells + n,
           *divergence = head + cells, *q = divergence + cells;

    /* What flows through the western and southern edges [m3/s]; nothing through the walls. */
    for (size_t j = 0; j < m; ++j)
        for (size_t i = 0; i < n; ++i) {
            const size_t here = j * n + i, west = j * n + (i == 0 ? n - 1 : i - 1);
            flux_u[here] = 0.5 * (s.h[west] + s.h[here]) * s.u[here] * air->dy;
            flux_v[here] = j == 0 ? 0.0 : 0.5 * (s.h[here - n] + s.h[here]) * s.v[here] * air->dx_v[j];
        }
    memset(flux_v + cells, 0, n * sizeof *flux_v);
    vorticity(air, s, zeta);

    for (size_t j = 0; j < m; ++j) {
        const double area = air->dx[j] * air->dy;
        for (size_t i = 0; i < n; ++i) {
            const size_t here = j * n + i, east = j * n + (i + 1 == n ? 0 : i + 1), north = here + n;
            d.h[here] = -(flux_u[east] - flux_u[here] + flux_v[north] - flux_v[here]) / area;
            head[here] = GRAVITY * s.h[here] + 0.25 * (s.u[here] * s.u[here] + s.u[east] * s.u[east]) +
                         0.25 * (s.v[here] * s.v[here] * air->dx_v[j] + s.v[north] * s.v[north] * air->dx_v[j + 1]) / air->dx[j];
            divergence[here] = ((s.u[east] - s.u[here]) * air->dy + s.v[north] * air->dx_v[j + 1] - s.v[here] * air->dx_v[j]) / area;
        }
    }

    /* Potential vorticity at the corners carries the fluxes; where both fluxes are zero, at the walls, it does not matter. */
    for (size_t j = 1; j < m; ++j) {
        const double coriolis = 2.0 * ROTATION * sin(latitude_of(air, (double)j));
        for (size_t i = 0; i < n; ++i) {
            const size_t here = j * n + i, west = j * n + (i == 0 ? n - 1 : i - 1);
            const double depth = 0.25 * (s.h[here] + s.h[west] + s.h[here - n] + s.h[west - n]);
            q[here] = (zeta[here] + coriolis) / depth;
        }
    }
    memset(q, 0, n * sizeof *q);
    memset(q + cells, 0, n * sizeof *q);

    for (size_t j = 0; j < m; ++j)
        for (size_t i = 0; i < n; ++i) {
            const size_t here = j * n + i, west = j * n + (i == 0 ? n - 1 : i - 1), east = j * n + (i + 1 == n ? 0 : i + 1);
            const double turned = q[here] * (flux_v[west] + flux_v[here]) + q[here + n] * (flux_v[west + n] + flux_v[here + n]);
            d.u[here] = (0.25 * turned - (head[here] - head[west])) / air->dx[j] +
                        air->diffusion * ((divergence[here] - divergence[west]) / air->dx[j] - (zeta[here + n] - zeta[here]) / air->dy);
            if (j == 0) {
                d.v[here] = d.v[cells + i] = 0.0;
                continue;
            }
            const double back = q[here] * (flux_u[here] + flux_u[here - n]) + q[east] * (flux_u[east] + flux_u[east - n]);
            d.v[here] = (-0.25 * back - (head[here] - head[here - n])) / air->dy +
                        air->diffusion *
                            ((divergence[here] - divergence[here - n]) / air->dy + (zeta[east] - zeta[here]) / air->dx_v[j]);
        }
}

void atmosphere_advance(atmosphere *air, double seconds, double longest) {
    static const double weight[4] = {1.0 / 6, 1.0 / 3, 1.0 / 3, 1.0 / 6}, next[4] = {0.5, 0.5, 1.0, 0.0};
    const size_t size = size_of(air);
    const int steps = (int)ceil(seconds / longest);
    const double dt = seconds / steps;
    double *change = air->work + 6 * air->lon * air->lat + 3 * air->lon, *stage = change + size, *sum = stage + size;
    for (int step = 0; step < steps; ++step) {
        memcpy(stage, air->state, size * sizeof *stage);
        memcpy(sum, air->state, size * sizeof *sum);
        for (int k = 0; k < 4; ++k) {
            tendency(air, stage, change);
            for (size_t i = 0; i < size; ++i) {
                sum[i] += weight[k] * dt * change[i];
                stage[i] = air->state[i] + next[k] * dt * change[i];
            }
        }
        memcpy(air->state, sum, size * sizeof *sum);
    }
}

double atmosphere_step(const atmosphere *air) {
    const double narrowest = air->dx[air->lat - 1], fastest = sqrt(GRAVITY * DEPTH) + 90.0;
    return 1.0 / (fastest * sqrt(1.0 / (narrowest * narrowest) + 1.0 / (air->dy * air->dy)));
}

double atmosphere_mass(const atmosphere *air) {
    double sum = 0.0;
    for (size_t j = 0; j < air->lat; ++j)
        for (size_t i = 0; i < air->lon; ++i) sum += air->state[j * air->lon + i] * air->dx[j] * air->dy;
    return sum;
}

double atmosphere_energy(const atmosphere *air) {
    const size_t n = air->lon;
    const parts s = parts_of(air, air->state);
    double sum = 0.0;
    for (size_t j = 0; j < air->lat; ++j)
        for (size_t i = 0; i < n; ++i) {
            const size_t here = j * n + i, west = j * n + (i == 0 ? n - 1 : i - 1);
            sum += 0.5 * air->dx[j] * air->dy *
                   (GRAVITY * s.h[here] * s.h[here] + 0.5 * (s.h[west] + s.h[here]) * s.u[here] * s.u[here]);
            if (j > 0) sum += 0.5 * air->dx_v[j] * air->dy * 0.5 * (s.h[here - n] + s.h[here]) * s.v[here] * s.v[here];
        }
    return sum;
}

double atmosphere_fastest(const atmosphere *air) {
    double fastest = 0.0;
    for (size_t i = air->lon * air->lat; i < size_of(air); ++i) fastest = fmax(fastest, fabs(air->state[i]));
    return fastest;
}

/* ------------------------------------------------------------------------------------------------------------ initial state */

static double jet_at(double latitude, double fastest) {
    const double first = PI / 7, last = PI / 2 - PI / 7;
    if (latitude <= first || latitude >= last) return 0.0;
    const double norm = exp(-4.0 / ((last - first) * (last - first)));
    return fastest / norm * exp(1.0 / ((latitude - first) * (latitude - last)));
}

/* The depth of each row that keeps v at zero: the equation of v above, row by row from the south. */
static void balance(atmosphere *air) {
    const size_t n = air->lon;
    const parts s = parts_of(air, air->state);
    double below = DEPTH + 150.0;
    for (size_t i = 0; i < n; ++i) s.h[i] = below;
    for (size_t j = 1; j < air->lat; ++j) {
        const double u = s.u[j * n], u_below = s.u[(j - 1) * n];
        const double zeta = -(u * air->dx[j] - u_below * air->dx[j - 1]) / (air->dx_v[j] * air->dy);
        const double absolute = zeta + 2.0 * ROTATION * sin(latitude_of(air, (double)j));
        double here = below;
        for (int again = 0; again < 50; ++again) {
            const double mean = (here * u + below * u_below) / (here + below);
            here = below - (absolute * mean * air->dy + 0.5 * (u * u - u_below * u_below)) / GRAVITY;
        }
        for (size_t i = 0; i < n; ++i) s.h[j * n + i] = here;
        below = here;
    }
}

atmosphere *atmosphere_new(size_t lon, size_t lat, double jet, double diffusion) {
    atmosphere *air = calloc(1, sizeof *air);
    if (air == NULL || lon < 4 || lat < 4) {
        free(air);
        return NULL;
    }
    air->lon = lon;
    air->lat = lat;
    air->diffusion = diffusion;
    air->d_lon = 2.0 * PI / (double)lon;
    air->d_lat = radians(NORTH - SOUTH) / (double)lat;
    air->dy = RADIUS * air->d_lat;
    air->dx = malloc(lat * sizeof(double));
    air->dx_v = malloc((lat + 1) * sizeof(double));
    air->state = calloc(size_of(air), sizeof(double));
    air->work = malloc((6 * lon * lat + 3 * lon + 3 * size_of(air)) * sizeof(double));
    if (air->dx == NULL || air->dx_v == NULL || air->state == NULL || air->work == NULL) {
        atmosphere_free(air);
        return NULL;
    }
    for (size_t j = 0; j <= lat; ++j) {
        air->dx_v[j] = RADIUS * cos(latitude_of(air, (double)j)) * air->d_lon;
        if (j == lat) break;
        air->dx[j] = RADIUS * cos(latitude_of(air, (double)j + 0.5)) * air->d_lon;
        const double u = jet_at(latitude_of(air, (double)j + 0.5), jet);
        for (size_t i = 0; i < lon; ++i) parts_of(air, air->state).u[j * lon + i] = u;
    }
    balance(air);
    return air;
}

void atmosphere_free(atmosphere *air) {
    if (air == NULL) return;
    free(air->dx);
    free(air->dx_v);
    free(air->state);
    free(air->work);
    free(air);
}

void atmosphere_bump(atmosphere *air, double height, double longitude, double latitude) {
    for (size_t j = 0; j < air->lat; ++j)
        for (size_t i = 0; i < air->lon; ++i) {
            const double phi = latitude_of(air, (double)j + 0.5);
            const double east = remainder((double)i * air->d_lon - radians(longitude), 2.0 * PI) * 3.0;
            const double north = (phi - radians(latitude)) * 15.0;
            air->state[j * air->lon + i] += height * cos(phi) * exp(-east * east - north * north);
        }
}

/* The next number of splitmix64, as a fraction from 0 to 1. */
static double draw(uint64_t *state) {
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

void atmosphere_perturb(atmosphere *air, unsigned number, int bumps, double spread) {
    uint64_t state = number;
    atmosphere_bump(air, 120.0, 0.0, 45.0);
    for (int k = 0; number > 0 && k < bumps; ++k) {
        const double height = spread * (2.0 * draw(&state) - 1.0), longitude = 360.0 * draw(&state);
        atmosphere_bump(air, height, longitude, 35.0 + 20.0 * draw(&state));
    }
}

/* ------------------------------------------------------------------------------------------------------------------- fields */

static const char *const SURFACE[] = {"msl", "10u", "10v", "10si"};
static const char *const UPPER[] = {"z", "t", "u", "v", "vo"};
static const int STANDARD[] = {500, 850, 250, 1000, 700, 300};
enum { AT_SURFACE = 4, ON_LEVEL = 5, STANDARD_LEVELS = 6 };

/* The standard levels, and then the others, from 1000 hPa upwards in steps of 4. */
static int level_at(size_t n) {
    if (n < STANDARD_LEVELS) return STANDARD[n];
    int level = 1004;
    for (size_t left = n - STANDARD_LEVELS + 1; left > 0;) {
        level -= 4;
        if (level % 100 != 0 || (level != 1000 && level != 700 && level != 500 && level != 300)) --left;
    }
    return level;
}

field_name field_at(size_t n) {
    if (n < AT_SURFACE) {
        field_name surface = {SURFACE[n], "sfc", 0};
        return surface;
    }
    n -= AT_SURFACE;
    field_name upper = {UPPER[n % ON_LEVEL], "pl", level_at(n / ON_LEVEL)};
    return upper;
}

/* The standard atmosphere at a pressure [hPa]: height [m] and temperature [K]. */
static void standard_atmosphere(double pressure, double *height, double *temperature) {
    const double ratio = pow(pressure / 1013.25, 0.190263);
    *temperature = 288.15 * ratio;
    *height = 288.15 / 0.0065 * (1.0 - ratio);
    if (pressure < 226.32) {
        *temperature = 216.65;
        *height = 11000.0 + GAS * 216.65 / GRAVITY * log(226.32 / pressure);
    }
}

void field_compute(const atmosphere *air, field_name name, double *out) {
    const size_t n = air->lon, m = air->lat;
    const parts s = parts_of(air, air->state);
    const int surface = strcmp(name.levtype, "sfc") == 0;
    const double pressure = surface ? 1000.0 : name.level;
    const double above = log(pressure / 300.0), share = exp(-above * above / 1.21); /* of the wind at 300 hPa */
    const double friction = surface ? 0.7 : 1.0;                                    /* between 1000 hPa and 10 m */
    const char *param = surface && name.param[0] == '1' ? name.param + 2 : name.param;
    double height, temperature, *zeta = air->work;
    standard_atmosphere(pressure, &height, &temperature);
    vorticity(air, s, zeta);

    for (size_t j = 0; j < m; ++j)
        for (size_t i = 0; i < n; ++i) {
            const size_t east_column = i + 1 == n ? 0 : i + 1, here = j * n + i, east = j * n + east_column;
            const double u = 0.5 * share * friction * (s.u[here] + s.u[east]), v = 0.5 * share * friction * (s.v[here] + s.v[here + n]);
            const double z = height + share * (s.h[here] - DEPTH);
            /* From the hydrostatic equation: T = -g/R dz/d(ln p). */
            const double t = temperature + GRAVITY / GAS * share * 2.0 * above / 1.21 * (s.h[here] - DEPTH);
            double value;
            if (strcmp(param, "z") == 0) value = z;
            else if (strcmp(param, "t") == 0) value = t;
            else if (strcmp(param, "u") == 0) value = u;
            else if (strcmp(param, "v") == 0) value = v;
            else if (strcmp(param, "si") == 0) value = sqrt(u * u + v * v);
            else if (strcmp(param, "msl") == 0) value = 100000.0 * exp(GRAVITY * z / (GAS * t));
            else value = 0.25 * share * (zeta[here] + zeta[east] + zeta[here + n] + zeta[east + n]);
            out[(m - 1 - j) * n + i] = value;
        }
}

void field_grid(const atmosphere *air, double area[4], double grid[2]) {
    grid[0] = 360.0 / (double)air->lon;
    grid[1] = (NORTH - SOUTH) / (double)air->lat;
    area[0] = NORTH - 0.5 * grid[1];
    area[1] = 0.0;
    area[2] = SOUTH + 0.5 * grid[1];
    area[3] = 360.0 - grid[0];
}
