/* Forces between all pairs of bodies, and a step of their movement (leapfrog with softening), as textbooks have it. */
#include "device.h"

#define TILE 256

SHARED float tile[TILE][4];

/* bodies[count][4]: x y z mass; 256 threads in a block, count a multiple of 256. */
KERNEL pull(const float *restrict bodies, float *restrict accelerations, u32 count, float softening) {
    u32 i = global_thread();
    float x = bodies[4 * i], y = bodies[4 * i + 1], z = bodies[4 * i + 2], ax = 0.0f, ay = 0.0f, az = 0.0f;
    for (u32 first = 0; first < count; first += TILE) {
        for (u32 part = 0; part < 4; part++) tile[THREAD_X][part] = bodies[4 * (first + THREAD_X) + part];
        BARRIER();
        for (u32 j = 0; j < TILE; j++) {
            float dx = tile[j][0] - x, dy = tile[j][1] - y, dz = tile[j][2] - z;
            float inverse = __nvvm_rsqrt_approx_f(dx * dx + dy * dy + dz * dz + softening);
            float weight = tile[j][3] * inverse * inverse * inverse;
            ax += dx * weight;
            ay += dy * weight;
            az += dz * weight;
        }
        BARRIER();
    }
    accelerations[4 * i] = ax;
    accelerations[4 * i + 1] = ay;
    accelerations[4 * i + 2] = az;
}

KERNEL move(float *restrict bodies, float *restrict velocities, const float *restrict accelerations, u32 count, float time) {
    u32 place = global_thread(), part = place % 4;
    if (place >= 4 * count || part == 3) return;
    float velocity = velocities[place] + time * accelerations[place];
    velocities[place] = velocity;
    bodies[place] += time * velocity;
}

KERNEL begin_bodies(float *bodies, float *velocities, u32 count, u32 seed) {
    u32 place = global_thread(), part = place % 4;
    if (place >= 4 * count) return;
    bodies[place] = part == 3 ? 1.0f / (float)count : 2.0f * random_float(place, 0, seed) - 1.0f;
    velocities[place] = 0.0f;
}
