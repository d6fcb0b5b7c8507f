/*
 * Ranks of a parallel program, and arrays that are spread over them. With MPI include xmml_mpi.h, which fills in the team.
 *
 * All ranks join together. Rank 0 talks to the run; the calls of xmml.h that wait or exchange are made by all ranks in the same order,
 * and give the same on all of them:
 *  - xmml_reuse, xmml_step, parameters and scales: as if each rank were the instance;
 *  - a receive gives every rank the message;
 *  - a send sends what rank 0 gives; the other ranks may give anything, for example xmml_send_nothing. xmml_send_gathered sends an
 *    array that is put together from the blocks of all ranks;
 *  - an error of rank 0 is the error of every rank.
 * On a port that is parallel (run:decomp in the model) each rank sends its own block of the array, and receives its own; nothing is
 * gathered on one rank. A receive there gives the block in row-major order, or in the one that xmml_prefer_order asks for.
 */
#ifndef XMML_TEAM_H
#define XMML_TEAM_H

#include <xmml.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How a rank reaches the others. The functions return NULL, or a text that says what went wrong and lives until the next call. They are
   called in the thread that calls xMML. */
typedef struct xmml_team {
    void *context;
    uint32_t rank;
    uint32_t size;
    const char *(*give)(void *context, const void *data, size_t size);    /* rank 0: to all others, which take it */
    const char *(*take)(void *context, void *data, size_t size);          /* the others: from rank 0 */
    const char *(*deliver)(void *context, const void *data, size_t size); /* the others: to rank 0, which collects it */
    const char *(*collect)(void *context, uint32_t from, void *data, size_t size); /* rank 0: from one rank */
    void (*release)(void *context);                                       /* the last call; may be NULL */
} xmml_team;

/* Joins the run with all ranks of the team. What keeps one of them from joining is an error on all. `language`: "c", ... */
xmml_status xmml_join_team(xmml_instance **me, const xmml_team *team, const char *language);

/* Which rank this is, from 0, and how many there are; 0 and 1 after xmml_join. */
uint32_t xmml_rank(const xmml_instance *me);
uint32_t xmml_ranks(const xmml_instance *me);

/* The memory order in which the blocks that this rank receives on parallel ports are put together. */
xmml_status xmml_prefer_order(xmml_instance *me, int order);

#define XMML_BLOCK_RANK 16

/* A block of an array: its first index and extent in each dimension, and the extents of the whole array. */
typedef struct xmml_block {
    size_t rank;
    size_t shape[XMML_BLOCK_RANK];
    size_t start[XMML_BLOCK_RANK];
    size_t extent[XMML_BLOCK_RANK];
} xmml_block;

/* The block of this rank in the array of a port. The extents of the whole array are `shape`, of `rank` dimensions; with 0 and NULL
   those of the last message on that port, or else those that the spacescales of the model give. */
xmml_status xmml_block_of(const xmml_instance *me, const char *port, size_t rank, const size_t *shape, xmml_block *block);

/* Sends this rank's block on a parallel port. `extent`: that of the block; `shape`: that of the whole array, or NULL if the model
   gives it (xmml_send_array does the same then). */
xmml_status xmml_send_block(xmml_instance *me, const char *port, int dtype, int order, size_t rank,
                            const size_t *extent, const size_t *shape, const void *data);
xmml_status xmml_send_value_block(xmml_instance *me, const char *port, const xmml_value *value, size_t rank,
                                  const size_t *shape);

/* Puts an object (see xmml_pools.h) on a parallel port, of which this is the block of this rank. Every rank calls it with the same
   attributes. xmml_put_array and xmml_put do the same where the model gives the extents of the whole array. */
xmml_status xmml_put_block(xmml_instance *me, const char *port, int dtype, int order, size_t rank, const size_t *extent,
                           const size_t *shape, const void *data, const char *attributes, uint64_t *readers);
xmml_status xmml_put_value_block(xmml_instance *me, const char *port, const xmml_value *value, size_t rank,
                                 const size_t *shape, const char *attributes, uint64_t *readers);

/* Puts the blocks of all ranks together on rank 0, which sends the array on an ordinary port. `decomposition` says how the ranks lie
   to each other, as run:decomp does: "block(x:2,y:2)". Blocks need not be of equal size, but must make a grid. */
xmml_status xmml_send_gathered(xmml_instance *me, const char *port, const char *decomposition, int dtype, int order,
                               size_t rank, const size_t *extent, const void *data);
xmml_status xmml_send_value_gathered(xmml_instance *me, const char *port, const char *decomposition,
                                     const xmml_value *value);

#ifdef __cplusplus
}
#endif

#ifndef XMML_NO_CALL_SITES
#define xmml_join_team(...) (xmml_at(__FILE__, __LINE__), xmml_join_team(__VA_ARGS__))
#define xmml_block_of(...) (xmml_at(__FILE__, __LINE__), xmml_block_of(__VA_ARGS__))
#define xmml_send_block(...) (xmml_at(__FILE__, __LINE__), xmml_send_block(__VA_ARGS__))
#define xmml_send_value_block(...) (xmml_at(__FILE__, __LINE__), xmml_send_value_block(__VA_ARGS__))
#define xmml_put_block(...) (xmml_at(__FILE__, __LINE__), xmml_put_block(__VA_ARGS__))
#define xmml_put_value_block(...) (xmml_at(__FILE__, __LINE__), xmml_put_value_block(__VA_ARGS__))
#define xmml_send_gathered(...) (xmml_at(__FILE__, __LINE__), xmml_send_gathered(__VA_ARGS__))
#define xmml_send_value_gathered(...) (xmml_at(__FILE__, __LINE__), xmml_send_value_gathered(__VA_ARGS__))
#endif

#endif
