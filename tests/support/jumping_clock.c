/* A clock that jumps: preloaded, it adds to the wall clock what stands in the file JUMPING_CLOCK, a number of seconds. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>

static const volatile long long *offset_s;

__attribute__((constructor)) static void map_offset(void)
{
    const char *name = getenv("JUMPING_CLOCK");
    int file = name == NULL ? -1 : open(name, O_RDONLY | O_CLOEXEC);
    void *mapped = file < 0 ? MAP_FAILED : mmap(NULL, sizeof *offset_s, PROT_READ, MAP_SHARED, file, 0);
    if (mapped != MAP_FAILED)
        offset_s = mapped;
}

static long long jump_s(void)
{
    return offset_s == NULL ? 0 : *offset_s;
}

int clock_gettime(clockid_t clock, struct timespec *at)
{
    static int (*of_system)(clockid_t, struct timespec *);
    if (of_system == NULL)
        of_system = dlsym(RTLD_NEXT, "clock_gettime");
    int status = of_system(clock, at);
    if (status == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        at->tv_sec += jump_s();
    return status;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone)
{
    struct timespec now;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0)
        return -1;
    at->tv_sec = now.tv_sec;
    at->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *at)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at != NULL)
        *at = now.tv_sec;
    return now.tv_sec;
}
