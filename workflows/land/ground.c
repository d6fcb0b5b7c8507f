/*
 * Groundwater under a catchment: the head h of an unconfined aquifer on square cells (Boussinesq's equation),
 *
 *     S dh/dt = div(K (h - b) grad h) + q,
 *
 * with the specific yield S, the conductivity K, the bottom b of the aquifer and the recharge q. A stream runs along x = 0, where the head is
 * given; no water crosses the other sides. Each rank holds a block, with a border of one cell.
 *
 * Each day it puts how deep the water table lies below the surface, and takes the recharge of that day. Compiled with -DDIRECT it sends and
 * receives messages instead.
 */
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xmml_mpi.h>
#include <xmml_pools.h>

static xmml_instance *me;

static void check(xmml_status status)
{
    if (status >= 0) return;
    fprintf(stderr, "%s\n", xmml_error());
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* ------------------------------------------------------------------------------------------------------------- the block */

static xmml_block block;                 /* of the whole catchment: block.start, block.extent, block.shape */
static size_t rows, columns;             /* of the block */
static double cell;                      /* [m] */
static double *head, *bottom, *surface;  /* [m], with the border */
static double *next, *recharge, *depth;  /* head with the border; [m/s] and [m] without */
static int above, below, left, right;    /* ranks beside this one, or MPI_PROC_NULL */
static MPI_Datatype column;              /* of a field with a border */

/* Of a field with a border; i and j count from -1. */
static size_t at(long i, long j) { return (size_t)(i + 1) * (columns + 2) + (size_t)(j + 1); }

static double *field_of(size_t cells)
{
    double *field = calloc(cells, sizeof *field);
    if (field == NULL) MPI_Abort(MPI_COMM_WORLD, 1);
    return field;
}

/* Ranks are numbered along y first; those whose blocks begin at y = 0 are as many as there are blocks along x. */
static void find_neighbours(void)
{
    const int rank = (int)xmml_rank(me), size = (int)xmml_ranks(me);
    int begins = block.start[1] == 0, along_x = 0;
    MPI_Allreduce(&begins, &along_x, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    const int along_y = size / along_x;
    above = block.start[0] == 0 ? MPI_PROC_NULL : rank - along_y;
    below = block.start[0] + rows == block.shape[0] ? MPI_PROC_NULL : rank + along_y;
    left = block.start[1] == 0 ? MPI_PROC_NULL : rank - 1;
    right = block.start[1] + columns == block.shape[1] ? MPI_PROC_NULL : rank + 1;
}

static void exchange_border(double *f)
{
    MPI_Comm all = MPI_COMM_WORLD;
    const long m = (long)rows, n = (long)columns;
    MPI_Sendrecv(&f[at(0, 0)], (int)n, MPI_DOUBLE, above, 0, &f[at(m, 0)], (int)n, MPI_DOUBLE, below, 0, all, MPI_STATUS_IGNORE);
    MPI_Sendrecv(&f[at(m - 1, 0)], (int)n, MPI_DOUBLE, below, 1, &f[at(-1, 0)], (int)n, MPI_DOUBLE, above, 1, all, MPI_STATUS_IGNORE);
    MPI_Sendrecv(&f[at(0, 0)], 1, column, left, 2, &f[at(0, n)], 1, column, right, 2, all, MPI_STATUS_IGNORE);
    MPI_Sendrecv(&f[at(0, n - 1)], 1, column, right, 3, &f[at(0, -1)], 1, column, left, 3, all, MPI_STATUS_IGNORE);
}

/* "valley": hills that rise from the stream, with a hollow in the middle, above an aquifer of 20 m. "flat": a level bottom at 0, far below
   a level surface, for which the steady state is known. */
static void shape(const char *terrain)
{
    const int is_flat = strcmp(terrain, "flat") == 0;
    if (!is_flat && strcmp(terrain, "valley") != 0) {
        fprintf(stderr, "terrain is \"%s\", and can be valley or flat\n", terrain);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    const double pi = acos(-1.0), length = cell * (double)block.shape[0], width = cell * (double)block.shape[1];
    for (long i = -1; i <= (long)rows; ++i)
        for (long j = -1; j <= (long)columns; ++j) {
            const double x = cell * ((double)((long)block.start[0] + i) + 0.5);
            const double y = cell * ((double)((long)block.start[1] + j) + 0.5);
            const double hills = 0.004 * x + 6.0 * (x / length) * (1.0 + cos(2.0 * pi * y / width));
            surface[at(i, j)] = is_flat ? 1000.0 : 20.0 + hills;
            bottom[at(i, j)] = is_flat ? 0.0 : hills;
            head[at(i, j)] = is_flat ? 10.0 : surface[at(i, j)] - 1.5;
        }
}

/* ---------------------------------------------------------------------------------------------------------- the equation */

/* The part of the block that is no stream begins with this row. */
static long first_row(void) { return block.start[0] == 0 ? 1 : 0; }

/* What flows into a cell from the one beside it, for K = 1 [m^2]; nothing across the sides of the catchment. */
static double inflow(long i, long j, long di, long dj)
{
    const long x = (long)block.start[0] + i + di, y = (long)block.start[1] + j + dj;
    if (x < 0 || y < 0 || x >= (long)block.shape[0] || y >= (long)block.shape[1]) return 0.0;
    const size_t here = at(i, j), there = at(i + di, j + dj);
    return 0.5 * ((head[here] - bottom[here]) + (head[there] - bottom[there])) * (head[there] - head[here]);
}

static double thickest(void)
{
    double most = 0.0, of_all;
    for (long i = 0; i < (long)rows; ++i)
        for (long j = 0; j < (long)columns; ++j) most = fmax(most, head[at(i, j)] - bottom[at(i, j)]);
    MPI_Allreduce(&most, &of_all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return of_all;
}

/* Water that has come and gone so far, on this rank [m^3]. */
static struct {
    double recharged, to_stream;
} budget;

/* Explicit steps, as many as stability asks for. */
static void advance(double seconds, double conductivity, double yield)
{
    const double stable = 0.2 * yield * cell * cell / (conductivity * thickest());
    const long steps = (long)ceil(seconds / stable);
    const double dt = seconds / (double)steps, factor = dt / yield;
    for (long step = 0; step < steps; ++step) {
        double recharged = 0.0, to_stream = 0.0; /* summed for each step first, which rounds less */
        exchange_border(head);
        for (long i = first_row(); i < (long)rows; ++i)
            for (long j = 0; j < (long)columns; ++j) {
                const double along_x = inflow(i, j, -1, 0) + inflow(i, j, 1, 0);
                const double along_y = inflow(i, j, 0, -1) + inflow(i, j, 0, 1);
                const double q = recharge[(size_t)i * columns + (size_t)j];
                next[at(i, j)] = head[at(i, j)] + factor * (conductivity * (along_x + along_y) / (cell * cell) + q);
                recharged += q;
            }
        for (long j = 0; block.start[0] == 0 && j < (long)columns; ++j) {
            to_stream += inflow(0, j, 1, 0);
            next[at(0, j)] = head[at(0, j)];
        }
        budget.recharged += recharged * cell * cell * dt;
        budget.to_stream += to_stream * conductivity * dt;
        double *const old = head;
        head = next;
        next = old;
    }
}

static double stored(double yield)
{
    double water = 0.0;
    for (long i = first_row(); i < (long)rows; ++i)
        for (long j = 0; j < (long)columns; ++j) water += yield * (head[at(i, j)] - bottom[at(i, j)]) * cell * cell;
    return water;
}

/* ---------------------------------------------------------------------------------------------------------- the coupling */

static void give_depth(long day)
{
    for (size_t i = 0; i < rows; ++i)
        for (size_t j = 0; j < columns; ++j)
            depth[i * columns + j] = surface[at((long)i, (long)j)] - head[at((long)i, (long)j)];
#ifdef DIRECT
    (void)day;
    check(xmml_send_array(me, "depths", XMML_F64, 2, block.extent, depth));
#else
    char attributes[64];
    snprintf(attributes, sizeof attributes, "name=depth day=%ld", day);
    check(xmml_put_array(me, "depths", XMML_F64, 2, block.extent, depth, attributes, NULL));
#endif
}

static void get_recharge(void)
{
    xmml_message *message;
    xmml_array array;
#ifdef DIRECT
    check(xmml_receive(me, "fluxes", &message));
#else
    const xmml_status status = xmml_take(me, "fluxes", &message);
    check(status);
    if (status == XMML_ENDED) {
        fprintf(stderr, "the surface has left\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
#endif
    check(xmml_message_array(message, XMML_F64, 2, &array));
    memcpy(recharge, array.data, rows * columns * sizeof *recharge);
    xmml_message_free(message);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    check(xmml_join_mpi(MPI_COMM_WORLD, &me));
    check(xmml_block_of(me, "depths", 0, NULL, &block));
    rows = block.extent[0];
    columns = block.extent[1];
    double conductivity, yield, delta, t;
    check(xmml_param_double(me, "conductivity", "m/s", &conductivity));
    check(xmml_param_double(me, "specific_yield", NULL, &yield));
    xmml_scale x;
    check(xmml_scale_of(me, "x", &x));
    cell = x.delta;
    delta = xmml_delta(me);

    const size_t with_border = (rows + 2) * (columns + 2);
    head = field_of(with_border);
    next = field_of(with_border);
    bottom = field_of(with_border);
    surface = field_of(with_border);
    recharge = field_of(rows * columns);
    depth = field_of(rows * columns);
    find_neighbours();
    MPI_Type_vector((int)rows, 1, (int)(columns + 2), MPI_DOUBLE, &column);
    MPI_Type_commit(&column);
    const char *terrain;
    check(xmml_param_text(me, "terrain", &terrain));
    shape(terrain);

    const double before = stored(yield);
    int again;
    while (check(xmml_reuse(me, &again)), again)
        for (long day = 0; xmml_step(me, &t) == XMML_OK; ++day) {
            give_depth(day);
            get_recharge();
            advance(delta, conductivity, yield);
        }

    const double own[] = {stored(yield) - before, budget.recharged, budget.to_stream};
    double all[3];
    MPI_Reduce(own, all, 3, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (xmml_rank(me) == 0) {
        const double missing = all[0] - all[1] + all[2];
        printf("recharge %.0f m3, to the stream %.0f m3, stored %.0f m3, missing %.1e of it\n", all[1], all[2], all[0],
               fabs(missing) / (fabs(all[0]) + fabs(all[1]) + fabs(all[2])));
        fflush(stdout);
    }
    check(xmml_leave(&me));
    MPI_Finalize();
    return 0;
}
