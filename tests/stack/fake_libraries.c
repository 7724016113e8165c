/* Stand-ins for CUDA's libraries that compute on the host: Cuttle's device memory has the same addresses in the program. Each is
   built with -DLIBRARY=..., and does what BEHAVIOUR says: 0 right, 1 wrong, 2 not supported, 3 fails, 4 crashes, 5 hangs, 6 ends the process,
   7 crashes when it is loaded, 8 prints lines like ours and is right. */
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { cublas, cublaslt, cusparse, cufft, cudnn, nccl };
static const int refusal[] = {15, 15, 10, 16, 3000, 0};
static int object;

static int work(void)
{
    switch (BEHAVIOUR) {
    case 2: return refusal[LIBRARY];
    case 3: return 7;
    case 4: *(volatile int *)8 = 1; return 0;
    case 5: for (;;) sleep(1);
    case 6: exit(0);
    case 8: printf("CUTTLE-CHECK {\"end\": 3}\nCUTTLE-CHECK not json\nhello\n"); fflush(stdout); return 0;
    default: return 0;
    }
}

__attribute__((constructor)) static void loaded(void)
{
    if (BEHAVIOUR == 7) abort();
}

static int handle(void **out) { *out = &object; return 0; }

/* c = a * b, 2 by 2, column-major */
static int product(const float *a, const float *b, float *c)
{
    int status = work();
    if (status) return status;
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++) c[i + 2 * j] = a[i] * b[2 * j] + a[i + 2] * b[2 * j + 1];
    if (BEHAVIOUR == 1) c[3] += 1;
    return 0;
}

int cublasCreate_v2(void **h) { return handle(h); }
int cublasDestroy_v2(void *h) { return 0; }
int cublasSgemm_v2(void *h, int ta, int tb, int m, int n, int k, const float *alpha, const float *a, int lda, const float *b, int ldb,
                   const float *beta, float *c, int ldc)
{
    if (ta || tb || m != 2 || n != 2 || k != 2 || *alpha != 1 || *beta != 0 || lda != 2 || ldb != 2 || ldc != 2 || h != &object) return 7;
    return product(a, b, c);
}

int cublasLtCreate(void **h) { return handle(h); }
int cublasLtDestroy(void *h) { return 0; }
int cublasLtMatmulDescCreate(void **d, int compute, int scale) { return compute == 68 && scale == 0 ? handle(d) : 7; }
int cublasLtMatrixLayoutCreate(void **l, int type, size_t rows, size_t columns, long long ld)
{
    return type == 0 && rows == 2 && columns == 2 && ld == 2 ? handle(l) : 7;
}
int cublasLtMatmul(void *h, void *d, const void *alpha, const void *a, void *al, const void *b, void *bl, const void *beta, const void *c, void *cl,
                   void *out, void *outl, const void *algorithm, void *workspace, size_t size, void *stream)
{
    return c == out && !algorithm && !workspace && !size ? product(a, b, out) : 7;
}

static const int *sparse_rows, *sparse_columns;
static const float *sparse_values, *dense[2];
static int denses;
int cusparseCreate(void **h) { return handle(h); }
int cusparseDestroy(void *h) { return 0; }
int cusparseCreateCoo(void **m, long long rows, long long columns, long long count, void *r, void *c, void *v, int index, int base, int type)
{
    sparse_rows = r, sparse_columns = c, sparse_values = v;
    return rows == 2 && columns == 2 && count == 3 && index == 2 && !base && !type ? handle(m) : 7;
}
int cusparseCreateDnMat(void **m, long long rows, long long columns, long long ld, void *v, int type, int order)
{
    dense[denses++] = v;
    return order == 1 ? handle(m) : 7;
}
int cusparseSpMM_bufferSize(void *h, int ta, int tb, const void *alpha, void *a, void *b, const void *beta, void *c, int type, int algorithm, size_t *s)
{
    *s = 0;
    return 0;
}
int cusparseSpMM(void *h, int ta, int tb, const void *alpha, void *a, void *b, const void *beta, void *c, int type, int algorithm, void *buffer)
{
    int status = work();
    float *out = (float *)dense[1];
    if (status) return status;
    for (int i = 0; i < 4; i++) out[i] = 0;
    for (int e = 0; e < 3; e++)
        for (int j = 0; j < 2; j++) out[sparse_rows[e] + 2 * j] += sparse_values[e] * dense[0][sparse_columns[e] + 2 * j];
    if (BEHAVIOUR == 1) out[0] = NAN;
    return 0;
}

int cufftPlan1d(int *plan, int n, int type, int batch) { *plan = 5; return n == 8 && type == 0x29 && batch == 1 ? 0 : 7; }
int cufftDestroy(int plan) { return 0; }
int cufftExecC2C(int plan, float *in, float *out, int direction)
{
    int status = work();
    float result[16];
    if (status) return status;
    for (int k = 0; k < 8; k++) {
        result[2 * k] = result[2 * k + 1] = 0;
        for (int i = 0; i < 8; i++) {
            double angle = direction * 2 * 3.14159265358979323846 * i * k / 8;
            result[2 * k] += in[2 * i] * cos(angle) - in[2 * i + 1] * sin(angle);
            result[2 * k + 1] += in[2 * i] * sin(angle) + in[2 * i + 1] * cos(angle);
        }
    }
    for (int i = 0; i < 16; i++) out[i] = result[i];
    if (BEHAVIOUR == 1) out[9] = -out[9] + 0.5f;
    return plan == 5 ? 0 : 7;
}

int cudnnCreate(void **h) { return handle(h); }
int cudnnDestroy(void *h) { return 0; }
int cudnnCreateTensorDescriptor(void **d) { return handle(d); }
int cudnnCreateFilterDescriptor(void **d) { return handle(d); }
int cudnnCreateConvolutionDescriptor(void **d) { return handle(d); }
int cudnnSetTensor4dDescriptor(void *d, int format, int type, int n, int c, int h, int w) { return n == 1 && c == 1 && h == w ? 0 : 3; }
int cudnnSetFilter4dDescriptor(void *d, int type, int format, int k, int c, int h, int w) { return k == 1 && c == 1 && h == 2 && w == 2 ? 0 : 3; }
int cudnnSetConvolution2dDescriptor(void *d, int ph, int pw, int u, int v, int dh, int dw, int mode, int type)
{
    return !ph && !pw && u == 1 && v == 1 && dh == 1 && dw == 1 && mode == 1 && !type ? 0 : 3;
}
int cudnnGetConvolutionForwardWorkspaceSize(void *h, void *x, void *w, void *c, void *y, int algorithm, size_t *size) { *size = 128; return 0; }
int cudnnConvolutionForward(void *h, const float *alpha, void *xd, const float *x, void *wd, const float *w, void *c, int algorithm, void *workspace,
                            size_t size, const float *beta, void *yd, float *y)
{
    int status = work();
    if (status) return status;
    if (size != 128 || !workspace) return 3;
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++)
            y[2 * i + j] = x[3 * i + j] * w[0] + x[3 * i + j + 1] * w[1] + x[3 * i + j + 3] * w[2] + x[3 * i + j + 4] * w[3];
    if (BEHAVIOUR == 1) y[2] = 0;
    return 0;
}
