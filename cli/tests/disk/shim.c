// Preloaded into the program: calls on files below a folder fail on demand. RETHREAD_FAULT_FOLDER names the folder,
// RETHREAD_FAULT_ORDERS a file with `struct orders`, which the test changes while the program runs.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { WRITES = 1, SYNCS = 2, OPENS = 4, SHORT_WRITES = 8 };

struct orders {
    int kinds;   // which calls fail; 0 for none
    int error;   // what they fail with
    int first;   // the first call that fails, counted from `count`
    int last;    // the last one
    int count;   // the calls of these kinds so far
    int failed;  // the calls that have failed so far
};

static struct orders *orders;
static char folder[4096];
static size_t folder_length;

__attribute__((constructor)) static void start(void) {
    const char *of = getenv("RETHREAD_FAULT_FOLDER"), *file = getenv("RETHREAD_FAULT_ORDERS");
    if (!of || !file || strlen(of) >= sizeof folder) return;
    strcpy(folder, of);
    folder_length = strlen(folder);
    int (*real)(const char *, int, ...) = dlsym(RTLD_NEXT, "open64");
    int fd = real(file, O_RDWR | O_CLOEXEC);
    if (fd < 0) return;
    void *at = mmap(NULL, sizeof *orders, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (at != MAP_FAILED) orders = at;
}

static int below(const char *path) {
    size_t length = strlen(path);
    // SQLite's index of the log is in memory in effect, and the lock files and logs are not part of the store.
    if (length > 4 && !strcmp(path + length - 4, "-shm")) return 0;
    return !strncmp(path, folder, folder_length) && !strstr(path + folder_length, "/state/");
}

static int is_of_store(int fd) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length <= 0) return 0;
    path[length] = 0;
    return below(path);
}

static int fails(int kind) {
    if (!orders || !(__atomic_load_n(&orders->kinds, __ATOMIC_SEQ_CST) & kind)) return 0;
    int number = __atomic_add_fetch(&orders->count, 1, __ATOMIC_SEQ_CST);
    if (number < orders->first || number > orders->last) return 0;
    __atomic_add_fetch(&orders->failed, 1, __ATOMIC_SEQ_CST);
    errno = orders->error;
    return 1;
}

static ssize_t write_at(const char *name, int fd, const void *bytes, size_t length, off64_t offset) {
    ssize_t (*real)(int, const void *, size_t, off64_t) = dlsym(RTLD_NEXT, name);
    if (orders && is_of_store(fd)) {
        if (fails(WRITES)) return -1;
        if (length > 1 && fails(SHORT_WRITES)) return real(fd, bytes, length / 2, offset);
    }
    return real(fd, bytes, length, offset);
}

ssize_t pwrite(int fd, const void *bytes, size_t length, off_t offset) {
    return write_at("pwrite", fd, bytes, length, offset);
}

ssize_t pwrite64(int fd, const void *bytes, size_t length, off64_t offset) {
    return write_at("pwrite64", fd, bytes, length, offset);
}

static int sync_as(const char *name, int fd) {
    int (*real)(int) = dlsym(RTLD_NEXT, name);
    return orders && is_of_store(fd) && fails(SYNCS) ? -1 : real(fd);
}

int fsync(int fd) { return sync_as("fsync", fd); }

int fdatasync(int fd) { return sync_as("fdatasync", fd); }

static int open_as(const char *name, const char *path, int flags, mode_t mode) {
    int (*real)(const char *, int, ...) = dlsym(RTLD_NEXT, name);
    return orders && below(path) && fails(OPENS) ? -1 : real(path, flags, mode);
}

int open(const char *path, int flags, ...) {
    va_list more;
    va_start(more, flags);
    mode_t mode = va_arg(more, mode_t);
    va_end(more);
    return open_as("open", path, flags, mode);
}

int open64(const char *path, int flags, ...) {
    va_list more;
    va_start(more, flags);
    mode_t mode = va_arg(more, mode_t);
    va_end(more);
    return open_as("open64", path, flags, mode);
}
