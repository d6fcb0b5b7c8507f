/* Every call of xmml_path.h, both ends in one program. The environment says in which FOLDER the secret lies. */
#define _POSIX_C_SOURCE 200809L
#include <arpa/inet.h>
#include <dirent.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <xmml_path.h>

#include "behaviour.h"

#define LONG 60.0  /* seconds; nothing takes so long unless it hangs */
#define SHORT 0.03 /* seconds in which nothing comes */
#define BULK XMML_PATH_BULK
#define MANY (4u << 20)

struct ends {
    xmml_path *here, *there;
};

static char* in_folder(const char* name) {
    static char file[4][512];
    static int next;
    next = (next + 1) % 4;
    CHECK(getenv("FOLDER") != NULL);
    CHECK(snprintf(file[next], sizeof file[next], "%s/%s", getenv("FOLDER"), name) < (int)sizeof file[next]);
    return file[next];
}

static xmml_path_identity identity(const char* name) {
    xmml_path_identity me = {"run", NULL, NULL, NULL, NULL, 0};
    me.name = name;
    me.secret_file = in_folder("secret");
    return me;
}

static struct ends meet(const xmml_path_identity* here, const xmml_path_identity* there,
                        const xmml_path_settings* given) {
    struct ends ends = {NULL, NULL};
    xmml_path_listener* listener = NULL;
    CHECK(xmml_path_listen(&listener, "127.0.0.1:0", there, given) == XMML_OK);
    CHECK(xmml_path_accept(listener, &ends.there, SHORT) == XMML_TIMED_OUT && ends.there == NULL);
    CHECK(xmml_path_dial(&ends.here, xmml_path_listener_address(listener), here, "there", given, LONG) == XMML_OK);
    CHECK(xmml_path_accept(listener, &ends.there, LONG) == XMML_OK);
    CHECK(xmml_path_listener_close(&listener) == XMML_OK && listener == NULL);
    return ends;
}

static struct ends pair(const xmml_path_settings* given) {
    xmml_path_identity here = identity("here"), there = identity("there");
    return meet(&here, &there, given);
}

static void give_up(struct ends* ends) {
    xmml_path_free(&ends->here);
    xmml_path_free(&ends->there);
    CHECK(ends->here == NULL && ends->there == NULL);
}

static void check_message(xmml_path_message* message, const char* expected) {
    CHECK(xmml_path_message_size(message) == strlen(expected));
    CHECK(memcmp(xmml_path_message_data(message), expected, strlen(expected)) == 0);
    xmml_path_message_free(&message);
    CHECK(message == NULL);
}

static void check_next(xmml_path* path, xmml_path_lane lane, const char* expected) {
    xmml_path_message* message = NULL;
    CHECK(xmml_path_receive(path, lane, &message, LONG) == XMML_OK);
    check_message(message, expected);
}

static void say(xmml_path* path, xmml_path_lane lane, const char* text) {
    CHECK(xmml_path_send(path, lane, text, strlen(text), LONG) == XMML_OK);
}

static void* closes(void* path) {
    CHECK(xmml_path_close((xmml_path**)path, LONG) == XMML_OK);
    return NULL;
}

static void paths_open_carry_both_lanes_and_close(void) {
    struct ends ends = pair(NULL);
    xmml_path_message* message = NULL;
    pthread_t closing;
    CHECK(xmml_path_receive(ends.there, BULK, &message, SHORT) == XMML_TIMED_OUT && message == NULL);
    say(ends.here, BULK, "bulk");
    say(ends.here, XMML_PATH_CONTROL, "control");
    check_next(ends.there, XMML_PATH_CONTROL, "control");
    check_next(ends.there, BULK, "bulk");
    CHECK(xmml_path_finish(ends.here) == XMML_OK);
    CHECK(xmml_path_send(ends.here, BULK, "late", 4, LONG) == XMML_ERROR_USAGE);
    CHECK(xmml_path_receive(ends.there, BULK, &message, LONG) == XMML_ENDED);
    CHECK(pthread_create(&closing, NULL, closes, &ends.here) == 0);
    CHECK(xmml_path_close(&ends.there, LONG) == XMML_OK && ends.there == NULL);
    CHECK(pthread_join(closing, NULL) == 0 && ends.here == NULL);
    ends = pair(NULL);
    CHECK(xmml_path_close(&ends.here, SHORT) == XMML_TIMED_OUT && ends.here == NULL);
    give_up(&ends);
}

static void nobody_listens_and_a_time_passes(void) {
    xmml_path_identity here = identity("here"), there = identity("there");
    xmml_path_listener* listener = NULL;
    xmml_path* path = NULL;
    char address[64];
    CHECK(xmml_path_listen(&listener, "127.0.0.1:0", &there, NULL) == XMML_OK);
    CHECK(snprintf(address, sizeof address, "%s", xmml_path_listener_address(listener)) < (int)sizeof address);
    CHECK(xmml_path_listener_close(&listener) == XMML_OK);
    CHECK(xmml_path_dial(&path, address, &here, "there", NULL, SHORT) == XMML_TIMED_OUT && path == NULL);
}

struct dialling {
    const char* address;
    xmml_path* path;
    xmml_status status;
};

static void* dials_without_end(void* given) {
    struct dialling* dialling = given;
    xmml_path_identity here = identity("here");
    dialling->status = xmml_path_dial(&dialling->path, dialling->address, &here, "there", NULL, -1);
    return NULL;
}

/* An address on which nobody listens yet; nobody else is given its port until the descriptor is closed. */
static int keep_address(char* address, size_t size) {
    struct sockaddr_in at = {0};
    socklen_t length = sizeof at;
    int yes = 1, kept = socket(AF_INET, SOCK_STREAM, 0);
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    CHECK(kept >= 0 && setsockopt(kept, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0);
    CHECK(bind(kept, (struct sockaddr*)&at, sizeof at) == 0);
    CHECK(getsockname(kept, (struct sockaddr*)&at, &length) == 0);
    CHECK(snprintf(address, size, "127.0.0.1:%d", (int)ntohs(at.sin_port)) < (int)size);
    return kept;
}

static void who_listens_may_come_late(void) {
    /* In the long form later than a path is dialled if nobody says for how long. */
    const struct timespec late = {getenv("XMML_SOAK") != NULL ? 32 : 0, 200000000};
    xmml_path_identity there = identity("there");
    xmml_path_listener* listener = NULL;
    struct dialling dialling = {NULL, NULL, XMML_DONE};
    struct ends ends = {NULL, NULL};
    char address[64];
    pthread_t thread;
    int kept = keep_address(address, sizeof address);
    dialling.address = address;
    CHECK(pthread_create(&thread, NULL, dials_without_end, &dialling) == 0);
    nanosleep(&late, NULL);
    CHECK(xmml_path_listen(&listener, address, &there, NULL) == XMML_OK);
    CHECK(xmml_path_accept(listener, &ends.there, LONG) == XMML_OK);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(dialling.status == XMML_OK);
    ends.here = dialling.path;
    say(ends.there, BULK, "late");
    check_next(ends.here, BULK, "late");
    CHECK(xmml_path_listener_close(&listener) == XMML_OK);
    give_up(&ends);
    close(kept);
}

static void a_message_comes_into_memory_of_the_caller(void) {
    struct ends ends = pair(NULL);
    char memory[8] = "";
    size_t size = 0;
    CHECK(xmml_path_receive_into(ends.there, BULK, memory, 8, &size, SHORT) == XMML_TIMED_OUT);
    say(ends.here, BULK, "hello");
    CHECK(xmml_path_receive_into(ends.there, BULK, memory, 4, &size, LONG) == XMML_ERROR_TYPE && size == 5);
    CHECK(xmml_path_receive_into(ends.there, BULK, memory, 8, &size, LONG) == XMML_OK && size == 5);
    CHECK(memcmp(memory, "hello\0\0", 8) == 0);
    CHECK(xmml_path_finish(ends.here) == XMML_OK);
    CHECK(xmml_path_receive_into(ends.there, BULK, memory, 8, &size, LONG) == XMML_ENDED);
    give_up(&ends);
}

static void what_is_posted_arrives_or_a_time_passes(void) {
    xmml_path_settings narrow;
    struct ends ends;
    uint64_t ticket = 0;
    char* bytes = calloc(MANY, 1);
    const void* parts[] = {bytes};
    const size_t sizes[] = {MANY};
    xmml_path_message* message = NULL;
    CHECK(bytes != NULL);
    xmml_path_settings_init(&narrow);
    narrow.streams = 1;
    narrow.window = narrow.queue = 1 << 20;
    ends = pair(&narrow);
    CHECK(xmml_path_post(ends.here, XMML_PATH_CONTROL, "note", 4, NULL) == XMML_OK);
    CHECK(xmml_path_flush(ends.here, LONG) == XMML_OK);
    bytes[MANY - 1] = 7;
    CHECK(xmml_path_post(ends.here, BULK, bytes, MANY, &ticket) == XMML_OK);
    CHECK(xmml_path_post(ends.here, BULK, bytes, MANY, &ticket) == XMML_OK);
    memset(bytes, 0, MANY);
    CHECK(xmml_path_wait(ends.here, ticket, SHORT) == XMML_TIMED_OUT);
    CHECK(xmml_path_flush(ends.here, SHORT) == XMML_TIMED_OUT);
    CHECK(xmml_path_send(ends.here, BULK, "more", 4, SHORT) == XMML_TIMED_OUT);
    CHECK(xmml_path_scatter(&ends.here, 1, BULK, parts, sizes, SHORT) == XMML_TIMED_OUT);
    CHECK_SAYS("took no message within");
    CHECK(xmml_path_receive(ends.there, BULK, &message, LONG) == XMML_OK);
    CHECK(xmml_path_message_size(message) == MANY && ((const char*)xmml_path_message_data(message))[MANY - 1] == 7);
    xmml_path_message_free(&message);
    CHECK(xmml_path_receive(ends.there, BULK, &message, LONG) == XMML_OK);
    xmml_path_message_free(&message);
    CHECK(xmml_path_wait(ends.here, ticket, LONG) == XMML_OK);
    check_next(ends.there, XMML_PATH_CONTROL, "note");
    give_up(&ends);
    free(bytes);
}

static void messages_are_exchanged_and_passed_in_a_ring(void) {
    struct ends one = pair(NULL), other = pair(NULL);
    xmml_path_message* message = NULL;
    CHECK(xmml_path_send_receive(one.here, BULK, "1", 1, &message, SHORT) != XMML_OK && message == NULL);
    CHECK_SAYS("sent no message within");
    check_next(one.there, BULK, "1");
    say(one.there, BULK, "answer");
    CHECK(xmml_path_send_receive(one.here, BULK, "question", 8, &message, LONG) == XMML_OK);
    check_message(message, "answer");
    check_next(one.there, BULK, "question");
    CHECK(xmml_path_cycle(one.here, other.here, BULK, "2", 1, &message, SHORT) == XMML_TIMED_OUT && message == NULL);
    CHECK_SAYS("sent no message within");
    check_next(one.there, BULK, "2");
    say(other.there, BULK, "from another");
    CHECK(xmml_path_cycle(one.here, other.here, BULK, "on", 2, &message, LONG) == XMML_OK);
    check_message(message, "from another");
    check_next(one.there, BULK, "on");
    give_up(&one);
    give_up(&other);
}

static void* comes_to_the_barrier(void* path) {
    CHECK(xmml_path_barrier(path, LONG) == XMML_OK);
    return NULL;
}

static void both_ends_meet_at_a_barrier(void) {
    struct ends ends = pair(NULL);
    pthread_t other;
    CHECK(xmml_path_barrier(ends.here, SHORT) == XMML_TIMED_OUT);
    CHECK(xmml_path_barrier(ends.there, LONG) == XMML_OK);
    say(ends.there, BULK, "before");
    CHECK(pthread_create(&other, NULL, comes_to_the_barrier, ends.there) == 0);
    CHECK(xmml_path_barrier(ends.here, LONG) == XMML_OK);
    CHECK(pthread_join(other, NULL) == 0);
    check_next(ends.here, BULK, "before");
    give_up(&ends);
}

struct relaying {
    xmml_path *one, *other;
    xmml_status status;
};

static void* relays(void* given) {
    struct relaying* relaying = given;
    relaying->status = xmml_path_relay(relaying->one, relaying->other);
    if (relaying->status != XMML_OK) {
        CHECK_SAYS("not known to have passed on");
    }
    return NULL;
}

static void a_relay_passes_messages_ends_and_failures_on(void) {
    int fails;
    for (fails = 0; fails < 2; ++fails) {
        struct ends one = pair(NULL), other = pair(NULL);
        struct relaying relaying = {NULL, NULL, XMML_DONE};
        xmml_path_message* message = NULL;
        pthread_t thread;
        relaying.one = one.there;
        relaying.other = other.here;
        CHECK(pthread_create(&thread, NULL, relays, &relaying) == 0);
        say(one.here, BULK, "there");
        say(other.there, XMML_PATH_CONTROL, "back");
        check_next(other.there, BULK, "there");
        check_next(one.here, XMML_PATH_CONTROL, "back");
        if (fails) {
            xmml_path_free(&one.here);
            CHECK(xmml_path_receive(other.there, BULK, &message, LONG) == XMML_ERROR_CONNECTION);
            CHECK_SAYS("has lost a path");
        } else {
            CHECK(xmml_path_finish(one.here) == XMML_OK && xmml_path_finish(other.there) == XMML_OK);
            CHECK(xmml_path_receive(other.there, BULK, &message, LONG) == XMML_ENDED);
            CHECK(xmml_path_receive(one.here, BULK, &message, LONG) == XMML_ENDED);
        }
        CHECK(pthread_join(thread, NULL) == 0);
        CHECK(relaying.status == (fails ? XMML_ERROR_CONNECTION : XMML_OK));
        give_up(&one);
        give_up(&other);
    }
}

static void parts_are_scattered_and_gathered_all_or_none(void) {
    struct ends one = pair(NULL), other = pair(NULL);
    xmml_path *here[2], *there[2];
    const void* data[] = {"1", "22"};
    const size_t sizes[] = {1, 2};
    xmml_path_message* parts[2];
    here[0] = one.here, here[1] = other.here;
    there[0] = one.there, there[1] = other.there;
    CHECK(xmml_path_scatter(here, 2, BULK, data, sizes, LONG) == XMML_OK);
    CHECK(xmml_path_gather(there, 2, BULK, parts, LONG) == XMML_OK);
    check_message(parts[0], "1");
    check_message(parts[1], "22");
    say(one.here, BULK, "early");
    CHECK(xmml_path_flush(one.here, LONG) == XMML_OK);
    CHECK(xmml_path_gather(there, 2, BULK, parts, SHORT) == XMML_TIMED_OUT && parts[0] == NULL && parts[1] == NULL);
    CHECK_SAYS("sent no message within");
    say(other.here, BULK, "late");
    CHECK(xmml_path_gather(there, 2, BULK, parts, LONG) == XMML_OK);
    check_message(parts[0], "early");
    check_message(parts[1], "late");
    give_up(&one);
    give_up(&other);
}

static void settings_change_and_what_has_passed_is_counted(void) {
    xmml_path_settings settings;
    xmml_path_stats stats;
    struct ends ends;
    time_t until = time(NULL) + (time_t)LONG;
    struct timespec moment = {0, 1000000};
    xmml_path_settings_init(&settings);
    settings.streams = 1;
    ends = pair(&settings);
    settings.streams = 129;
    CHECK(xmml_path_set(ends.here, &settings) == XMML_ERROR_USAGE);
    settings.streams = 3;
    settings.zero_copy = 3;
    CHECK(xmml_path_set(ends.here, &settings) == XMML_ERROR_USAGE);
    CHECK_SAYS("XMML_PATH_ZERO_COPY_OFF");
    settings.zero_copy = XMML_PATH_ZERO_COPY_OFF;
    CHECK(xmml_path_set(ends.here, &settings) == XMML_OK);
    do {
        CHECK(time(NULL) < until);
        nanosleep(&moment, NULL);
        CHECK(xmml_path_get_stats(ends.here, &stats) == XMML_OK);
    } while (stats.streams != 3);
    say(ends.here, BULK, "counted");
    check_next(ends.there, BULK, "counted");
    CHECK(xmml_path_get_stats(ends.there, &stats) == XMML_OK);
    CHECK(stats.bytes_in >= 7 && stats.streams_lost == 0 && stats.resumed == 0);
    CHECK(stats.zero_copy_streams == 0 && stats.why_copied != NULL);
    CHECK(xmml_path_get_stats(ends.here, &stats) == XMML_OK);
    CHECK(stats.zero_copy_bytes == 0 && strcmp(stats.why_copied, "the path was told to copy") == 0);
    give_up(&ends);
}

/* How many threads of this process carry streams. */
static int workers(void) {
    DIR* tasks = opendir("/proc/self/task");
    struct dirent* task;
    char file[300], name[32];
    int count = 0;
    CHECK(tasks != NULL);
    while ((task = readdir(tasks)) != NULL) {
        FILE* opened;
        CHECK(snprintf(file, sizeof file, "/proc/self/task/%s/comm", task->d_name) < (int)sizeof file);
        opened = fopen(file, "r");
        if (opened == NULL) continue; /* not a thread, or one that has ended */
        if (fgets(name, sizeof name, opened) != NULL && strncmp(name, "xmml-path-worke", 15) == 0) ++count;
        fclose(opened);
    }
    closedir(tasks);
    return count;
}

static void threads_carry_streams_if_they_are_wanted(void) {
    struct ends ends = pair(NULL);
    xmml_path_settings settings;
    const int wanted[] = {2, -1};
    int at;
    xmml_path_settings_init(&settings);
    CHECK(settings.workers == 0 && workers() == 0);
    settings.workers = 129;
    CHECK(xmml_path_set(ends.here, &settings) == XMML_ERROR_USAGE);
    for (at = 0; at < 2; ++at) {
        const int expected = wanted[at] < 0 ? 0 : wanted[at];
        const struct timespec moment = {0, 1000000};
        time_t until = time(NULL) + (time_t)LONG;
        settings.workers = wanted[at];
        CHECK(xmml_path_set(ends.here, &settings) == XMML_OK);
        while (workers() != expected) {
            CHECK(time(NULL) < until);
            say(ends.here, BULK, "carried");
            check_next(ends.there, BULK, "carried");
            nanosleep(&moment, NULL);
        }
    }
    give_up(&ends);
}

static void an_event_loop_sees_what_comes(void) {
    struct ends ends = pair(NULL);
    xmml_path_message* message = NULL;
    time_t until = time(NULL) + (time_t)LONG;
    say(ends.here, BULK, "event");
    while (xmml_path_receive(ends.there, BULK, &message, 0) == XMML_TIMED_OUT) {
        struct pollfd waiting = {0, POLLIN, 0};
        waiting.fd = xmml_path_fd(ends.there);
        CHECK(waiting.fd >= 0 && time(NULL) < until);
        CHECK(poll(&waiting, 1, 10) >= 0); /* the thread of the library may have been faster */
        CHECK(xmml_path_drive(ends.there) == XMML_OK);
    }
    check_message(message, "event");
    give_up(&ends);
}

static void encrypted_paths_know_each_other_by_fingerprints(void) {
    char mine[65], theirs[65];
    const char *trusted_here[1], *trusted_there[1];
    xmml_path_identity here = identity("here"), there = identity("there");
    struct ends ends;
    here.credentials_file = in_folder("here.pem");
    there.credentials_file = in_folder("there.pem");
    CHECK(xmml_path_make_credentials(here.credentials_file, "here", 3600, mine) == XMML_OK && strlen(mine) == 64);
    CHECK(xmml_path_make_credentials(there.credentials_file, "there", 3600, theirs) == XMML_OK);
    CHECK(xmml_path_make_credentials(there.credentials_file, "there", 3600, theirs) == XMML_ERROR_CONNECTION);
    trusted_here[0] = theirs, trusted_there[0] = mine;
    here.trusted = trusted_here, there.trusted = trusted_there;
    here.trusted_count = there.trusted_count = 1;
    ends = meet(&here, &there, NULL);
    say(ends.here, BULK, "secret");
    check_next(ends.there, BULK, "secret");
    give_up(&ends);
}

int main(int argc, char** argv) {
    const struct behaviour all[] = {
        {"paths_open_carry_both_lanes_and_close", paths_open_carry_both_lanes_and_close},
        {"nobody_listens_and_a_time_passes", nobody_listens_and_a_time_passes},
        {"who_listens_may_come_late", who_listens_may_come_late},
        {"a_message_comes_into_memory_of_the_caller", a_message_comes_into_memory_of_the_caller},
        {"what_is_posted_arrives_or_a_time_passes", what_is_posted_arrives_or_a_time_passes},
        {"messages_are_exchanged_and_passed_in_a_ring", messages_are_exchanged_and_passed_in_a_ring},
        {"both_ends_meet_at_a_barrier", both_ends_meet_at_a_barrier},
        {"a_relay_passes_messages_ends_and_failures_on", a_relay_passes_messages_ends_and_failures_on},
        {"parts_are_scattered_and_gathered_all_or_none", parts_are_scattered_and_gathered_all_or_none},
        {"settings_change_and_what_has_passed_is_counted", settings_change_and_what_has_passed_is_counted},
        {"threads_carry_streams_if_they_are_wanted", threads_carry_streams_if_they_are_wanted},
        {"an_event_loop_sees_what_comes", an_event_loop_sees_what_comes},
        {"encrypted_paths_know_each_other_by_fingerprints", encrypted_paths_know_each_other_by_fingerprints},
        {NULL, NULL},
    };
    return run_behaviour(all, argc, argv);
}
