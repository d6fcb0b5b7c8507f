/* A small model of the atmosphere: shallow water on the sphere between two walls, and the fields that a forecast makes of it.
 *
 * Prognostic are the depth h of the layer and the wind u, v, on Arakawa's C grid of longitudes and latitudes:
 *
 *     dh/dt = -div(h V)          dV/dt = -(zeta + f) k x V - grad(g h + V^2/2) + diffusion
 *
 * in the energy-conserving form of Sadourny (1975), with the fourth-order scheme of Runge and Kutta in time. Mass is conserved to
 * rounding; without diffusion, energy is conserved but for the error of the time step, which falls with its fifth power.
 *
 * It starts with the unstable jet of Galewsky, Scott and Polvani (2004), in balance with the depth on this very grid, and bumps in the
 * depth that make it break up.
 */
#ifndef ATMOSPHERE_H
#define ATMOSPHERE_H

#include <stddef.h>

typedef struct {
    size_t lon, lat;              /* cells around the globe, and from 10 to 80 degrees north */
    double *dx, *dx_v;            /* width of a cell in the middle of its row, and at the south of the row [m] */
    double dy, d_lat, d_lon;      /* [m], [rad] */
    double diffusion;             /* [m2/s] */
    double *state;                /* h, u (at the west of the cells), v (at their south, one row more), rows from south to north */
    double *work;                 /* scratch of a step */
} atmosphere;

/* The state with a jet of so many m/s; NULL if there is no memory for it. */
atmosphere *atmosphere_new(size_t lon, size_t lat, double jet, double diffusion);
void atmosphere_free(atmosphere *air);

/* Puts a bump into the depth: so many metres high at its middle, in degrees. */
void atmosphere_bump(atmosphere *air, double height, double longitude, double latitude);

/* Puts the bumps of a member of the ensemble: number 0, the control, has the one of Galewsky; each other has that and `bumps` more,
   with heights up to `spread` [m], drawn at random by its number. */
void atmosphere_perturb(atmosphere *air, unsigned number, int bumps, double spread);

/* Goes on by so many seconds, in equal steps that are no longer than `longest` [s]. */
void atmosphere_advance(atmosphere *air, double seconds, double longest);

/* A step [s] that is stable on this grid: gravity waves and wind go less than a cell of the northernmost row in it. */
double atmosphere_step(const atmosphere *air);

/* The volume of the layer [m3], its energy [m5/s2], and the fastest wind [m/s]. */
double atmosphere_mass(const atmosphere *air);
double atmosphere_energy(const atmosphere *air);
double atmosphere_fastest(const atmosphere *air);

/* What a field is, in MARS's words. `level` is a pressure [hPa], 0 at the surface. */
typedef struct {
    const char *param, *levtype;
    int level;
} field_name;

/* The n-th field of a step, for n below FIELDS. */
#define FIELDS 1234
field_name field_at(size_t n);

/* Computes it on the cells, in `out`, rows from north to south. The layer stands for the flow at 300 hPa, and an equivalent barotropic
   atmosphere for the other levels: winds there are parallel and in a fixed proportion, heights and temperatures in balance with them. */
void field_compute(const atmosphere *air, field_name name, double *out);

/* The grid of the fields, as MARS writes it: the middles of the outermost cells, north/west/south/east, and the spacing, in degrees. */
void field_grid(const atmosphere *air, double area[4], double grid[2]);

#endif
