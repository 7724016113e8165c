/* Copies and fills inside the arena; big ones are shared among the workers. */
#include "executor.h"

#include <string.h>

#define PIECE_BYTES ((uint64_t)512 << 10)
#define SHARE_FROM_BYTES ((uint64_t)2 << 20)

typedef struct rows_job {
    uint8_t *destination;
    const uint8_t *source;
    uint64_t row_bytes;
    uint64_t rows; /* in one slice */
    uint64_t slices;
    uint64_t destination_pitch, destination_slice;
    uint64_t source_pitch, source_slice;
    uint32_t value;
    uint32_t element_bytes; /* 0: a copy */
    uint64_t pieces;
    uint64_t rows_per_piece; /* 0: pieces of one row */
    _Atomic uint64_t next;
} rows_job;

static void fill_row(uint8_t *destination, uint64_t bytes, uint32_t value, uint32_t element_bytes)
{
    if (element_bytes == 1) {
        memset(destination, (int)(value & 255), bytes);
        return;
    }
    uint64_t pattern = element_bytes == 2 ? (value & 0xffff) * 0x0001000100010001ull
                                          : (uint64_t)value << 32 | value;
    uint64_t words = bytes / 8;
    uint64_t *place = (uint64_t *)(uintptr_t)destination;
    for (uint64_t i = 0; i < words; i++) {
        memcpy(&place[i], &pattern, 8);
    }
    memcpy(destination + words * 8, &pattern, bytes % 8);
}

static void do_row(const rows_job *job, uint64_t row)
{
    uint64_t slice = row / job->rows;
    uint64_t line = row % job->rows;
    uint8_t *destination = job->destination + slice * job->destination_slice + line * job->destination_pitch;
    if (job->element_bytes != 0) {
        fill_row(destination, job->row_bytes, job->value, job->element_bytes);
        return;
    }
    memmove(destination, job->source + slice * job->source_slice + line * job->source_pitch, job->row_bytes);
}

static void do_part_of_row(const rows_job *job, uint64_t piece)
{
    uint64_t begin = piece * PIECE_BYTES;
    uint64_t bytes = job->row_bytes - begin < PIECE_BYTES ? job->row_bytes - begin : PIECE_BYTES;
    if (job->element_bytes != 0) {
        fill_row(job->destination + begin, bytes, job->value, job->element_bytes);
    } else {
        memcpy(job->destination + begin, job->source + begin, bytes);
    }
}

static void run_pieces(worker *self, void *argument)
{
    rows_job *job = argument;
    uint64_t rows = job->rows * job->slices;
    self->activity = job->element_bytes != 0 ? "a memory fill" : "a memory copy";
    for (uint64_t piece; (piece = atomic_fetch_add(&job->next, 1)) < job->pieces;) {
        if (job->rows_per_piece == 0) {
            do_part_of_row(job, piece);
            continue;
        }
        uint64_t end = (piece + 1) * job->rows_per_piece;
        for (uint64_t row = piece * job->rows_per_piece; row < end && row < rows; row++) {
            do_row(job, row);
        }
    }
    self->activity = NULL;
}

static void run_rows(rows_job *job)
{
    uint64_t rows = job->rows * job->slices;
    if (rows == 0 || job->row_bytes == 0) {
        return;
    }
    uint64_t bytes = rows * job->row_bytes;
    uint32_t width = bytes < SHARE_FROM_BYTES ? 1 : executor.workers;
    if (rows == 1 && width > 1) {
        job->rows_per_piece = 0;
        job->pieces = (job->row_bytes + PIECE_BYTES - 1) / PIECE_BYTES;
    } else {
        job->rows_per_piece = width == 1 ? rows : (PIECE_BYTES + job->row_bytes - 1) / job->row_bytes;
        job->pieces = (rows + job->rows_per_piece - 1) / job->rows_per_piece;
    }
    job->next = 0;
    pool_run(run_pieces, job, width);
}

static uint8_t *pointer(uint64_t address)
{
    return (uint8_t *)(uintptr_t)address;
}

void run_copy(const cuttle_record_copy *record)
{
    uint64_t distance = record->destination > record->source ? record->destination - record->source
                                                             : record->source - record->destination;
    if (distance < record->bytes || record->bytes < SHARE_FROM_BYTES) {
        this_worker->activity = "a memory copy";
        memmove(pointer(record->destination), pointer(record->source), record->bytes);
        this_worker->activity = NULL;
        return;
    }
    rows_job job = {
        .destination = pointer(record->destination),
        .source = pointer(record->source),
        .row_bytes = record->bytes,
        .rows = 1,
        .slices = 1,
    };
    run_rows(&job);
}

void run_copy_3d(const cuttle_record_copy_3d *record)
{
    rows_job job = {
        .destination = pointer(record->destination),
        .source = pointer(record->source),
        .row_bytes = record->width_bytes,
        .rows = record->height,
        .slices = record->depth,
        .destination_pitch = record->destination_pitch,
        .destination_slice = record->destination_slice,
        .source_pitch = record->source_pitch,
        .source_slice = record->source_slice,
    };
    run_rows(&job);
}

void run_fill(const cuttle_record_fill *record)
{
    rows_job job = {
        .destination = pointer(record->destination),
        .row_bytes = record->width * record->element_bytes,
        .rows = record->height,
        .slices = 1,
        .destination_pitch = record->pitch,
        .value = record->value,
        .element_bytes = record->element_bytes,
    };
    run_rows(&job);
}
