/* The physical limit: what a plain C loop does with the same bytes, without checks, lifetimes or Python.
 *
 * A set is two files: records back to back ("data.bin"), and one 16-byte entry per record ("entries.bin"):
 * a u64 offset, a u32 length, a u32 zero. Both are mapped. Every function takes `pool` batches of `batch` indices
 * and runs `laps` of them in turn, so that one call from Python covers a whole timed slot.
 *
 * Tricks, in order of what they give: (1) entries are prefetched TABLE_AHEAD indices early and payloads
 * PAYLOAD_AHEAD early, so that the misses of several records overlap; (2) the output buffer is reused, so no page is
 * faulted in twice; (3) copies are one memcpy per record.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define TABLE_AHEAD 12
#define PAYLOAD_AHEAD 6
#define LINE 64

typedef struct {
    uint64_t offset;
    uint32_t length;
    uint32_t zero;
} entry;

/* Maps a file read-only. Returns NULL on failure; `bytes` receives its size. */
void *yard_map(const char *path, uint64_t *bytes) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return NULL;
    struct stat st;
    void *at = NULL;
    if (fstat(fd, &st) == 0 && st.st_size > 0) {
        at = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
        if (at == MAP_FAILED) at = NULL;
        *bytes = (uint64_t)st.st_size;
    }
    close(fd);
    return at;
}

int yard_unmap(void *at, uint64_t bytes) { return munmap(at, bytes); }

static inline void prefetch_record(const uint8_t *base, const entry *e) {
    const uint8_t *p = base + e->offset;
    /* The first lines start the miss early; the hardware prefetcher follows within the page. */
    uint32_t lines = (e->length + LINE - 1) / LINE;
    if (lines > 16) lines = 16;
    for (uint32_t i = 0; i < lines; i++) __builtin_prefetch(p + (size_t)i * LINE, 0, 3);
}

/* Turns indices into (pointer, length) pairs; returns a sum so that nothing is optimised away. */
uint64_t yard_resolve(const entry *table, const uint8_t *base, const int64_t *indices, uint64_t pool, uint64_t batch,
                      uint64_t laps, const uint8_t **pointers, uint64_t *lengths) {
    uint64_t sum = 0;
    for (uint64_t lap = 0; lap < laps; lap++) {
        const int64_t *idx = indices + (lap % pool) * batch;
        for (uint64_t i = 0; i < batch; i++) {
            if (i + TABLE_AHEAD < batch) __builtin_prefetch(&table[idx[i + TABLE_AHEAD]], 0, 3);
            const entry *e = &table[idx[i]];
            pointers[i] = base + e->offset;
            lengths[i] = e->length;
        }
        __asm__ volatile("" ::: "memory");
        sum += lengths[batch - 1];
    }
    return sum;
}

/* Copies each batch back to back into `out`, offsets beside it. */
uint64_t yard_gather(const entry *table, const uint8_t *base, const int64_t *indices, uint64_t pool, uint64_t batch,
                     uint64_t laps, uint8_t *out, int64_t *offsets) {
    uint64_t sum = 0;
    for (uint64_t lap = 0; lap < laps; lap++) {
        const int64_t *idx = indices + (lap % pool) * batch;
        uint64_t at = 0;
        offsets[0] = 0;
        for (uint64_t i = 0; i < TABLE_AHEAD && i < batch; i++) __builtin_prefetch(&table[idx[i]], 0, 3);
        for (uint64_t i = 0; i < PAYLOAD_AHEAD && i < batch; i++) prefetch_record(base, &table[idx[i]]);
        for (uint64_t i = 0; i < batch; i++) {
            if (i + TABLE_AHEAD < batch) __builtin_prefetch(&table[idx[i + TABLE_AHEAD]], 0, 3);
            if (i + PAYLOAD_AHEAD < batch) prefetch_record(base, &table[idx[i + PAYLOAD_AHEAD]]);
            const entry *e = &table[idx[i]];
            memcpy(out + at, base + e->offset, e->length);
            at += e->length;
            offsets[i + 1] = (int64_t)at;
        }
        sum += at;
    }
    return sum;
}

/* One memcpy of the bytes of `batch` records, `laps` times over a source larger than the cache. */
uint64_t yard_memcpy(const uint8_t *base, uint64_t base_bytes, uint64_t copy_bytes, uint64_t laps, uint8_t *out) {
    uint64_t at = 0, sum = 0;
    for (uint64_t lap = 0; lap < laps; lap++) {
        if (at + copy_bytes > base_bytes) at = 0;
        memcpy(out, base + at, copy_bytes);
        __asm__ volatile("" ::: "memory");
        at += copy_bytes;
        sum += copy_bytes;
    }
    return sum;
}

/* Fisher-Yates over [0, n) with a xorshift generator: the order of one epoch. */
void yard_permutation(int64_t *order, uint64_t n, uint64_t seed) {
    uint64_t x = seed * 0x9E3779B97F4A7C15ull + 1;
    for (uint64_t i = 0; i < n; i++) order[i] = (int64_t)i;
    for (uint64_t i = n; i > 1; i--) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        uint64_t j = (uint64_t)(((unsigned __int128)x * i) >> 64);
        int64_t keep = order[i - 1];
        order[i - 1] = order[j];
        order[j] = keep;
    }
}

/* ---- Cold reads: one batch, its pages not in memory. ---- */

/* Asks for every record of the batch with MADV_WILLNEED before the caller gathers it. */
int yard_willneed(const entry *table, uint8_t *base, const int64_t *idx, uint64_t batch) {
    for (uint64_t i = 0; i < batch; i++) {
        const entry *e = &table[idx[i]];
        uint64_t begin = e->offset & ~4095ull, end = e->offset + e->length;
        if (madvise(base + begin, end - begin, MADV_WILLNEED) != 0) return errno;
    }
    return 0;
}

typedef struct {
    int fd;
    const entry *table;
    const int64_t *idx;
    uint64_t batch;
    const uint64_t *at;
    uint8_t *out;
    atomic_uint_fast64_t next;
    atomic_int failed;
} pread_job;

static void *pread_worker(void *arg) {
    pread_job *job = arg;
    for (;;) {
        uint64_t i = atomic_fetch_add(&job->next, 1);
        if (i >= job->batch) return NULL;
        const entry *e = &job->table[job->idx[i]];
        uint64_t done = 0;
        while (done < e->length) {
            ssize_t got = pread(job->fd, job->out + job->at[i] + done, e->length - done, (off_t)(e->offset + done));
            if (got < 0 && errno == EINTR) continue;
            if (got <= 0) {
                atomic_store(&job->failed, got < 0 ? errno : EIO);
                return NULL;
            }
            done += (uint64_t)got;
        }
    }
}

/* Reads each of `laps` batches with `threads` threads of pread. Returns 0 or an errno. */
int yard_pread_threads(const char *path, const entry *table, const int64_t *indices, uint64_t batch, uint64_t laps,
                       uint64_t threads, uint8_t *out) {
    if (threads > 64) return EINVAL;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return errno;
    uint64_t *at = malloc(batch * sizeof *at);
    if (!at) {
        close(fd);
        return ENOMEM;
    }
    int failed = 0;
    for (uint64_t lap = 0; lap < laps && !failed; lap++) {
        pread_job job = {.fd = fd, .table = table, .idx = indices + lap * batch, .batch = batch, .at = at, .out = out};
        uint64_t sum = 0;
        for (uint64_t i = 0; i < batch; i++) {
            at[i] = sum;
            sum += table[job.idx[i]].length;
        }
        pthread_t ids[64];
        uint64_t started = 0;
        while (started < threads && pthread_create(&ids[started], NULL, pread_worker, &job) == 0) started++;
        if (started == 0) failed = EAGAIN;
        for (uint64_t i = 0; i < started; i++) pthread_join(ids[i], NULL);
        if (atomic_load(&job.failed)) failed = atomic_load(&job.failed);
    }
    free(at);
    close(fd);
    return failed;
}

/* ---- Append ---- */

static int write_all(int fd, const uint8_t *from, uint64_t bytes, uint64_t at) {
    while (bytes > 0) {
        ssize_t put = pwrite(fd, from, bytes, (off_t)at);
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0) return put < 0 ? errno : EIO;
        from += put;
        at += (uint64_t)put;
        bytes -= (uint64_t)put;
    }
    return 0;
}

/* Appends `count` records of `length` bytes, taken in turn from `sources` of them at `source`, through a 1 MiB
 * buffer and pwrite into space reserved 64 MiB at a time, and one 16-byte entry each through a second buffer.
 * Nothing is synced. Returns 0 or an errno. */
int yard_append(const char *data_path, const char *entries_path, const uint8_t *source, uint64_t sources,
                uint64_t length, uint64_t count) {
    enum { BUFFER = 1 << 20, RESERVE = 64 << 20, TABLE = 1 << 16 };
    if (length > BUFFER) return EINVAL;
    int fd = open(data_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    int table_fd = open(entries_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    uint8_t *buffer = malloc(BUFFER);
    entry *table = malloc(TABLE * sizeof *table);
    int failed = (fd < 0 || table_fd < 0) ? EIO : (!buffer || !table) ? ENOMEM : 0;
    uint64_t used = 0, written = 0, reserved = 0, rows = 0, rows_written = 0;
    for (uint64_t i = 0; i < count && !failed; i++) {
        if (used + length > BUFFER) {
            if (written + used > reserved) {
                /* A file system without fallocate only loses contiguity. */
                (void)fallocate(fd, FALLOC_FL_KEEP_SIZE, (off_t)reserved, RESERVE);
                reserved += RESERVE;
            }
            failed = write_all(fd, buffer, used, written);
            written += used;
            used = 0;
        }
        memcpy(buffer + used, source + (i % sources) * length, length);
        table[rows++] = (entry){.offset = written + used, .length = (uint32_t)length};
        used += length;
        if (rows == TABLE && !failed) {
            failed = write_all(table_fd, (const uint8_t *)table, rows * sizeof *table, rows_written * sizeof *table);
            rows_written += rows;
            rows = 0;
        }
    }
    if (!failed) failed = write_all(fd, buffer, used, written);
    if (!failed) failed = write_all(table_fd, (const uint8_t *)table, rows * sizeof *table, rows_written * sizeof *table);
    if (fd >= 0) {
        if (!failed && ftruncate(fd, (off_t)(written + used)) != 0) failed = errno;
        close(fd);
    }
    if (table_fd >= 0) close(table_fd);
    free(buffer);
    free(table);
    return failed;
}

/* ---- Page cache ---- */

/* Asks the kernel to drop a file's clean pages. Returns 0 or an errno. */
int yard_drop(const char *path) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return errno;
    int failed = posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    close(fd);
    return failed;
}

/* Counts a file's pages and those in memory. Returns 0 or an errno. */
int yard_residency(const char *path, uint64_t *pages, uint64_t *resident) {
    uint64_t bytes = 0;
    void *at = yard_map(path, &bytes);
    *pages = *resident = 0;
    if (!at) return errno ? errno : EINVAL;
    uint64_t count = (bytes + 4095) / 4096;
    unsigned char *seen = malloc(count);
    int failed = seen ? 0 : ENOMEM;
    if (!failed && mincore(at, bytes, seen) != 0) failed = errno;
    if (!failed) {
        *pages = count;
        for (uint64_t i = 0; i < count; i++) *resident += seen[i] & 1;
    }
    free(seen);
    munmap(at, bytes);
    return failed;
}
