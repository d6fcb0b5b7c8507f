/* A machine of the emulated network: a process alone in namespaces of its own, and the way into them.
 *
 *   machine hold OWNER HOSTNAME [FILE TARGET]...   becomes pid 1 of a new machine; FILE is seen as TARGET there. Prints its
 *                                                  process id (as seen outside) when the machine stands.
 *   machine enter [--net] PID FD COMMAND...        runs a command there; its process id is written to FD. With --net only
 *                                                  the network is the machine's, and FD is not used.
 *
 * The machine ends with the process OWNER, however that ends: pid 1 watches it, and when pid 1 ends the kernel ends every
 * process of the machine and forgets its interfaces. Nothing has a name outside.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define ALL (CLONE_NEWNET | CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWPID)

static void fail(const char *what) {
    fprintf(stderr, "machine: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int pidfd(pid_t pid) {
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (fd < 0)
        fail("pidfd_open");
    return fd;
}

/* Ends with the owner; until then it takes in whatever processes were left behind. */
static void stand(int owner, const sigset_t *children) {
    struct pollfd fds[2] = {{.fd = owner, .events = POLLIN}, {.fd = signalfd(-1, children, SFD_CLOEXEC), .events = POLLIN}};
    while (fds[0].revents == 0) {
        if (poll(fds, 2, -1) < 0 && errno != EINTR)
            break;
        struct signalfd_siginfo ignored;
        if (fds[1].revents && read(fds[1].fd, &ignored, sizeof ignored) < 0)
            break;
        while (waitpid(-1, NULL, WNOHANG) > 0) {
        }
    }
    _exit(0);
}

static int hold(int argc, char **argv) {
    if (argc < 2 || argc % 2)
        return 2;
    int owner = pidfd((pid_t)atol(argv[0]));
    if (unshare(ALL) != 0)
        fail("new namespaces");
    int told[2];
    if (pipe2(told, O_CLOEXEC) != 0)
        fail("pipe");
    pid_t child = fork();
    if (child < 0)
        fail("fork");
    if (child > 0) {
        char ready = 0;
        close(told[1]);
        if (read(told[0], &ready, 1) != 1)
            return 1;
        printf("%ld\n", (long)child);
        fflush(stdout);
        close(STDOUT_FILENO);
        waitpid(child, NULL, 0);
        return 0;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(told[0]);
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
        fail("private mounts");
    if (mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) != 0)
        fail("/proc");
    if (mount("tmpfs", "/run", "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=16m") != 0)
        fail("/run");
    for (int i = 2; i < argc; i += 2)
        if (mount(argv[i], argv[i + 1], NULL, MS_BIND, NULL) != 0)
            fail(argv[i + 1]);
    if (sethostname(argv[1], strlen(argv[1])) != 0)
        fail("host name");
    sigset_t children;
    sigemptyset(&children);
    sigaddset(&children, SIGCHLD);
    sigprocmask(SIG_BLOCK, &children, NULL);
    setsid();
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    dup2(null, STDIN_FILENO);
    dup2(null, STDOUT_FILENO);
    dup2(null, STDERR_FILENO);
    if (write(told[1], "r", 1) != 1)
        _exit(1);
    stand(owner, &children);
    return 0;
}

/* Waits for the command, hands signals on to it and ends as it ended. */
static int accompany(pid_t child, const sigset_t *handed_on) {
    int signals = signalfd(-1, handed_on, SFD_CLOEXEC);
    for (;;) {
        struct signalfd_siginfo got;
        if (read(signals, &got, sizeof got) != sizeof got)
            continue;
        if (got.ssi_signo != SIGCHLD) {
            /* What a terminal sends reaches the command by itself. */
            if (got.ssi_pid != 0)
                kill(child, (int)got.ssi_signo);
            continue;
        }
        int status;
        if (waitpid(child, &status, WNOHANG) != child)
            continue;
        if (WIFEXITED(status))
            return WEXITSTATUS(status);
        struct rlimit no_core = {0, 0};
        setrlimit(RLIMIT_CORE, &no_core);
        signal(WTERMSIG(status), SIG_DFL);
        sigset_t none;
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        raise(WTERMSIG(status));
        return 128 + WTERMSIG(status);
    }
}

static int enter(int argc, char **argv) {
    int network_only = argc > 0 && strcmp(argv[0], "--net") == 0;
    argc -= network_only;
    argv += network_only;
    if (argc < 3)
        return 2;
    int machine = pidfd((pid_t)atol(argv[0]));
    if (network_only) {
        if (setns(machine, CLONE_NEWNET) != 0)
            fail("entering the network");
        execvp(argv[2], argv + 2);
        fail(argv[2]);
    }
    char here[PATH_MAX];
    const char *folder = getcwd(here, sizeof here);
    if (setns(machine, ALL) != 0)
        fail("entering the machine");
    if (folder && chdir(folder) != 0)
        fail(folder);
    sigset_t handed_on, before;
    sigemptyset(&handed_on);
    const int some[] = {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGCONT};
    for (size_t i = 0; i < sizeof some / sizeof *some; i++)
        sigaddset(&handed_on, some[i]);
    sigprocmask(SIG_BLOCK, &handed_on, &before);
    pid_t child = fork();
    if (child < 0)
        fail("fork");
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        sigprocmask(SIG_SETMASK, &before, NULL);
        fcntl(atoi(argv[1]), F_SETFD, FD_CLOEXEC);
        execvp(argv[2], argv + 2);
        fprintf(stderr, "machine: %s: %s\n", argv[2], strerror(errno));
        _exit(127);
    }
    dprintf(atoi(argv[1]), "%ld\n", (long)child);
    close(atoi(argv[1]));
    return accompany(child, &handed_on);
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "hold") == 0)
        return hold(argc - 2, argv + 2);
    if (argc > 1 && strcmp(argv[1], "enter") == 0)
        return enter(argc - 2, argv + 2);
    return 2;
}
