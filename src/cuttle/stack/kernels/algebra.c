/* Linear algebra of small matrices, row-major, one block with a thread per row or column: what the capability tests need, not fast. */
#include "device.h"

static inline float absolute(float x) { return x < 0.0f ? -x : x; }

/* Gauss and Jordan with row exchange on a[n][width], width > n: the columns from n on become the solutions. `width` threads. */
KERNEL eliminate(float *a, u32 n, u32 width) {
    u32 column = THREAD_X;
    for (u32 step = 0; step < n; step++) {
        u32 best = step;
        for (u32 row = step + 1; row < n; row++)
            if (absolute(a[row * width + step]) > absolute(a[best * width + step])) best = row;
        BARRIER();
        float kept = a[step * width + column];
        a[step * width + column] = a[best * width + column];
        if (best != step) a[best * width + column] = kept;
        BARRIER();
        float pivot = a[step * width + step];
        BARRIER();
        a[step * width + column] /= pivot;
        BARRIER();
        for (u32 row = 0; row < n; row++) {
            float factor = a[row * width + step];
            BARRIER();
            if (row != step) a[row * width + column] -= factor * a[step * width + column];
            BARRIER();
        }
    }
}

/* a[n][n] becomes its lower Cholesky factor; n threads. */
KERNEL factor_symmetric(float *a, u32 n) {
    u32 row = THREAD_X;
    for (u32 step = 0; step < n; step++) {
        float sum = a[row * n + step];
        for (u32 k = 0; k < step; k++) sum -= a[row * n + k] * a[step * n + k];
        BARRIER();
        if (row == step) a[step * n + step] = __nvvm_sqrt_rn_f(sum);
        BARRIER();
        if (row > step) a[row * n + step] = sum / a[step * n + step];
        if (row < step) a[row * n + step] = 0.0f;
        BARRIER();
    }
}

/* a[m][n] becomes Q, r[n][n] R, by Gram and Schmidt, twice; n threads. */
KERNEL factor_orthogonal(float *a, float *r, u32 m, u32 n) {
    u32 column = THREAD_X;
    for (u32 i = 0; i < n; i++) r[i * n + column] = 0.0f;
    for (u32 step = 0; step < n; step++) {
        float square = 0.0f;
        for (u32 i = 0; i < m; i++) square += a[i * n + step] * a[i * n + step];
        float norm = __nvvm_sqrt_rn_f(square);
        BARRIER();
        if (column == step) {
            r[step * n + step] = norm;
            for (u32 i = 0; i < m; i++) a[i * n + step] /= norm;
        }
        BARRIER();
        if (column > step)
            for (u32 pass = 0; pass < 2; pass++) {
                float along = 0.0f;
                for (u32 i = 0; i < m; i++) along += a[i * n + step] * a[i * n + column];
                r[step * n + column] += along;
                for (u32 i = 0; i < m; i++) a[i * n + column] -= along * a[i * n + step];
            }
        BARRIER();
    }
}

/* x[n] from R x = Q^T b with q[m][n], r[n][n]; one thread. */
KERNEL back_substitute(const float *q, const float *r, const float *b, float *x, u32 m, u32 n) {
    for (u32 back = 0; back < n; back++) {
        u32 row = n - 1 - back;
        float sum = 0.0f;
        for (u32 i = 0; i < m; i++) sum += q[i * n + row] * b[i];
        for (u32 k = row + 1; k < n; k++) sum -= r[row * n + k] * x[k];
        x[row] = sum / r[row * n + row];
    }
}

/* One-sided Jacobi: the columns of a[m][n] are turned until they stand upright on each other, v[n][n] turns along, so that at the
   end a = U * S and the first a = U * S * V^T. sizes[n]: the singular values. One block, 32 threads share the rows. */
SHARED float parts[3][32];

static inline float total(u32 which) {
    float sum = 0.0f;
    for (u32 i = 0; i < 32; i++) sum += parts[which][i];
    return sum;
}

KERNEL turn_columns(float *a, float *v, float *sizes, u32 m, u32 n, u32 sweeps) {
    for (u32 i = THREAD_X; i < n * n; i += 32) v[i] = i / n == i % n ? 1.0f : 0.0f;
    BARRIER();
    for (u32 sweep = 0; sweep < sweeps; sweep++)
        for (u32 p = 0; p + 1 < n; p++)
            for (u32 q = p + 1; q < n; q++) {
                float pp = 0.0f, qq = 0.0f, pq = 0.0f;
                for (u32 i = THREAD_X; i < m; i += 32) {
                    pp += a[i * n + p] * a[i * n + p];
                    qq += a[i * n + q] * a[i * n + q];
                    pq += a[i * n + p] * a[i * n + q];
                }
                parts[0][THREAD_X] = pp;
                parts[1][THREAD_X] = qq;
                parts[2][THREAD_X] = pq;
                BARRIER();
                pp = total(0);
                qq = total(1);
                pq = total(2);
                BARRIER();
                if (absolute(pq) <= 1e-9f * __nvvm_sqrt_rn_f(pp * qq)) continue;
                float tau = (qq - pp) / (2.0f * pq);
                float tangent = (tau < 0.0f ? -1.0f : 1.0f) / (absolute(tau) + __nvvm_sqrt_rn_f(1.0f + tau * tau));
                float c = 1.0f / __nvvm_sqrt_rn_f(1.0f + tangent * tangent), s = c * tangent;
                for (u32 i = THREAD_X; i < m; i += 32) {
                    float x = a[i * n + p], y = a[i * n + q];
                    a[i * n + p] = c * x - s * y;
                    a[i * n + q] = s * x + c * y;
                }
                for (u32 i = THREAD_X; i < n; i += 32) {
                    float x = v[i * n + p], y = v[i * n + q];
                    v[i * n + p] = c * x - s * y;
                    v[i * n + q] = s * x + c * y;
                }
                BARRIER();
            }
    for (u32 column = THREAD_X; column < n; column += 32) {
        float square = 0.0f;
        for (u32 i = 0; i < m; i++) square += a[i * n + column] * a[i * n + column];
        sizes[column] = __nvvm_sqrt_rn_f(square);
    }
}

/* Two-sided Jacobi on a symmetric a[n][n]: its diagonal becomes the eigenvalues, the columns of v the vectors; v may be null.
   32 threads. */
KERNEL turn_symmetric(float *a, float *v, u32 n, u32 sweeps) {
    if (v)
        for (u32 i = THREAD_X; i < n * n; i += 32) v[i] = i / n == i % n ? 1.0f : 0.0f;
    BARRIER();
    for (u32 sweep = 0; sweep < sweeps; sweep++)
        for (u32 p = 0; p + 1 < n; p++)
            for (u32 q = p + 1; q < n; q++) {
                float pp = a[p * n + p], qq = a[q * n + q], pq = a[p * n + q];
                BARRIER();
                if (pq == 0.0f) continue;
                float tau = (qq - pp) / (2.0f * pq);
                float tangent = (tau < 0.0f ? -1.0f : 1.0f) / (absolute(tau) + __nvvm_sqrt_rn_f(1.0f + tau * tau));
                float c = 1.0f / __nvvm_sqrt_rn_f(1.0f + tangent * tangent), s = c * tangent;
                for (u32 i = THREAD_X; i < n; i += 32) {
                    float x = a[i * n + p], y = a[i * n + q];
                    a[i * n + p] = c * x - s * y;
                    a[i * n + q] = s * x + c * y;
                    if (v) {
                        x = v[i * n + p], y = v[i * n + q];
                        v[i * n + p] = c * x - s * y;
                        v[i * n + q] = s * x + c * y;
                    }
                }
                BARRIER();
                for (u32 i = THREAD_X; i < n; i += 32) {
                    float x = a[p * n + i], y = a[q * n + i];
                    a[p * n + i] = c * x - s * y;
                    a[q * n + i] = s * x + c * y;
                }
                BARRIER();
            }
}

/* out[n][m] = V * S^-1 * U^T from what `turn_columns` left: us[m][n] = U * S, v[n][n], sizes[n]. */
KERNEL invert_factors(const float *us, const float *v, const float *sizes, float *out, u32 m, u32 n) {
    u32 place = global_thread();
    if (place >= m * n) return;
    u32 row = place / m, column = place % m;
    float sum = 0.0f;
    for (u32 k = 0; k < n; k++) sum += v[row * n + k] * us[column * n + k] / (sizes[k] * sizes[k]);
    out[place] = sum;
}
