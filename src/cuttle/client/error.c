/* Names and texts of errors. */
#include "client.h"

typedef struct error_row {
    int number;
    const char *name, *text;
} error_row;

#include "error_table.h"

static const error_row *find(CUresult error) {
    for (size_t i = 0; i < sizeof error_rows / sizeof error_rows[0]; i++) {
        if (error_rows[i].number == (int)error) return &error_rows[i];
    }
    return NULL;
}

CUresult cuGetErrorName(CUresult error, const char **pStr) {
    if (pStr == NULL) return CUDA_ERROR_INVALID_VALUE;
    const error_row *row = find(error);
    *pStr = row != NULL ? row->name : NULL;
    return row != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult error, const char **pStr) {
    if (pStr == NULL) return CUDA_ERROR_INVALID_VALUE;
    const error_row *row = find(error);
    *pStr = row != NULL ? row->text : NULL;
    return row != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
