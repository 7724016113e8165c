// Gravity among 500 bodies, positions passed through shared memory; compared with a host run in double precision.
#include <cmath>

#include "check.h"

constexpr int bodies = 500;
constexpr int tile = 64;
constexpr int steps = 3;
constexpr float time_step = 0.01f;
constexpr float softening = 0.01f;

__global__ void accelerate(const float4* positions, float3* velocities)
{
    __shared__ float4 shared_positions[tile];
    int i = blockIdx.x * tile + threadIdx.x;
    float4 own = i < bodies ? positions[i] : make_float4(0, 0, 0, 0);
    float3 acceleration = make_float3(0, 0, 0);
    for (int start = 0; start < bodies; start += tile) {
        int j = start + threadIdx.x;
        // Bodies past the end have no mass and so no effect.
        shared_positions[threadIdx.x] = j < bodies ? positions[j] : make_float4(0, 0, 0, 0);
        __syncthreads();
        for (int k = 0; k < tile; k++) {
            float4 other = shared_positions[k];
            float dx = other.x - own.x;
            float dy = other.y - own.y;
            float dz = other.z - own.z;
            float inverse = rsqrtf(dx * dx + dy * dy + dz * dz + softening);
            float pull = other.w * inverse * inverse * inverse * (1 + broken);
            acceleration.x += dx * pull;
            acceleration.y += dy * pull;
            acceleration.z += dz * pull;
        }
        __syncthreads();
    }
    if (i < bodies) {
        velocities[i].x += acceleration.x * time_step;
        velocities[i].y += acceleration.y * time_step;
        velocities[i].z += acceleration.z * time_step;
    }
}

__global__ void move(float4* positions, const float3* velocities)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < bodies) {
        positions[i].x += velocities[i].x * time_step;
        positions[i].y += velocities[i].y * time_step;
        positions[i].z += velocities[i].z * time_step;
    }
}

struct Body {
    double position[3];
    double velocity[3];
    double mass;
};

void step_on_host(Body* all)
{
    for (int i = 0; i < bodies; i++) {
        for (int j = 0; j < bodies; j++) {
            double difference[3];
            double square = softening;
            for (int axis = 0; axis < 3; axis++) {
                difference[axis] = all[j].position[axis] - all[i].position[axis];
                square += difference[axis] * difference[axis];
            }
            double pull = all[j].mass / (square * std::sqrt(square));
            for (int axis = 0; axis < 3; axis++) {
                all[i].velocity[axis] += difference[axis] * pull * time_step;
            }
        }
    }
    for (int i = 0; i < bodies; i++) {
        for (int axis = 0; axis < 3; axis++) {
            all[i].position[axis] += all[i].velocity[axis] * time_step;
        }
    }
}

int main()
{
    Array<float4> positions(bodies);
    Array<float3> velocities(bodies);
    static Body all[bodies];
    Random random;
    for (int i = 0; i < bodies; i++) {
        float4 position = make_float4(random.below(2001) / 1000.0f - 1, random.below(2001) / 1000.0f - 1,
                                      random.below(2001) / 1000.0f - 1, 1.0f / bodies);
        positions[i] = position;
        all[i] = Body{{position.x, position.y, position.z}, {0, 0, 0}, position.w};
    }
    positions.upload();
    for (int step = 0; step < steps; step++) {
        accelerate<<<blocks_for(bodies, tile), tile>>>(positions.device, velocities.device);
        move<<<blocks_for(bodies, 100), 100>>>(positions.device, velocities.device);
        step_on_host(all);
    }
    FINISH();
    positions.download();
    velocities.download();
    for (int i = 0; i < bodies; i++) {
        CHECK(std::fabs(positions[i].x - all[i].position[0]) < 1e-5);
        CHECK(std::fabs(positions[i].y - all[i].position[1]) < 1e-5);
        CHECK(std::fabs(positions[i].z - all[i].position[2]) < 1e-5);
        CHECK(std::fabs(velocities[i].x - all[i].velocity[0]) < 1e-4);
        CHECK(std::fabs(velocities[i].y - all[i].velocity[1]) < 1e-4);
        CHECK(std::fabs(velocities[i].z - all[i].velocity[2]) < 1e-4);
    }
    std::printf("%d bodies agree after %d steps\n", bodies, steps);
    return pass("nbody");
}
