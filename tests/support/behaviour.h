/* A behaviour is a function named in words; the program runs the one that its argument names. */
#ifndef BEHAVIOUR_H
#define BEHAVIOUR_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct behaviour {
    const char *name;
    void (*run)(void);
};

#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            fprintf(stderr, "%s:%d: %s\nxmml_error(): %s\n", __FILE__, __LINE__, #condition, xmml_error()); \
            exit(1); \
        } \
    } while (0)

#define CHECK_SAYS(part) \
    do { \
        if (strstr(xmml_error(), (part)) == NULL) { \
            fprintf(stderr, "%s:%d: \"%s\" is not in xmml_error(): %s\n", __FILE__, __LINE__, (part), xmml_error()); \
            exit(1); \
        } \
    } while (0)

static int run_behaviour(const struct behaviour *known, int argc, char **argv)
{
    for (; known->name != NULL; ++known) {
        if (argc == 2 && strcmp(argv[1], known->name) == 0) {
            known->run();
            puts("held");
            return 0;
        }
    }
    fprintf(stderr, "no such behaviour\n");
    return 2;
}

#endif
