/* Proximal policy optimisation (Schulman et al., 2017, arXiv 1707.06347), all of it but the dense layers: a small world, the
   choice of actions, generalised advantages, the clipped loss, Adam.

   The world: a point in the plane is to come to a target and stay there. An action is one of across * up accelerations. What
   the network sees is the state, mixed into `features` numbers by a fixed random matrix. */
#include "device.h"

#define STATE 6 /* position x y, velocity x y, target x y */

/* states[count][STATE] at random places, at rest. */
static inline void begin_world(float *state, u32 world, u32 time, u32 seed) {
    for (u32 i = 0; i < 2; i++) {
        state[i] = 2.0f * random_float(world * 4 + i, time, seed) - 1.0f;
        state[2 + i] = 0.0f;
        state[4 + i] = 2.0f * random_float(world * 4 + 2 + i, time, seed) - 1.0f;
    }
}

KERNEL begin_worlds(float *states, u32 count, u32 seed) {
    u32 world = global_thread();
    if (world < count) begin_world(states + world * STATE, world, 0, seed);
}

/* seen[count][features]: each a fixed mixture of the state and of the way to the target. */
KERNEL observe(const float *restrict states, float *restrict seen, u32 count, u32 features) {
    u32 place = global_thread();
    if (place >= count * features) return;
    const float *state = states + place / features * STATE;
    u32 feature = place % features;
    float sum = random_float(feature, 8, 7u) - 0.5f;
    for (u32 i = 0; i < STATE; i++) sum += (2.0f * random_float(feature, i, 7u) - 1.0f) * state[i];
    for (u32 i = 0; i < 2; i++)
        sum += (4.0f * random_float(feature, STATE + i, 7u) - 2.0f) * (state[4 + i] - state[i]);
    seen[place] = smaller(larger(sum, -3.0f), 3.0f);
}

/* An action for each row of logits[count][choices], drawn with its probability; its logarithm. */
KERNEL choose(const float *restrict logits, u32 *restrict actions, float *restrict log_probabilities,
              u32 count, u32 choices, u32 time, u32 seed) {
    u32 row = global_thread();
    if (row >= count) return;
    const float *own = logits + (u64)row * choices;
    float top = own[0], total = 0.0f;
    for (u32 i = 1; i < choices; i++) top = larger(top, own[i]);
    for (u32 i = 0; i < choices; i++) total += exponential(own[i] - top);
    float left = random_float(row, time, seed ^ 0x51ED270Bu) * total;
    u32 chosen = choices - 1;
    for (u32 i = 0; i < choices; i++) {
        left -= exponential(own[i] - top);
        if (left < 0.0f) { chosen = i; break; }
    }
    actions[row] = chosen;
    log_probabilities[row] = own[chosen] - top - logarithm(total);
}

/* One step of every world: rewards[count] is closer to 0 the closer the point is to its target; `ended` after `length` steps. */
KERNEL step_worlds(float *states, const u32 *restrict actions, float *restrict rewards, u32 *restrict ended,
                   u32 count, u32 across, u32 up, u32 time, u32 length, u32 seed) {
    u32 world = global_thread();
    if (world >= count) return;
    float *state = states + world * STATE;
    u32 action = actions[world];
    float push[2] = {2.0f * (float)(action % across) / (float)(across - 1) - 1.0f,
                     2.0f * (float)(action / across) / (float)(up - 1) - 1.0f};
    float square = 0.0f;
    for (u32 i = 0; i < 2; i++) {
        float velocity = 0.9f * state[2 + i] + 0.1f * push[i];
        float position = smaller(larger(state[i] + 0.2f * velocity, -1.5f), 1.5f);
        state[2 + i] = velocity;
        state[i] = position;
        square += (state[4 + i] - position) * (state[4 + i] - position);
    }
    rewards[world] = -__nvvm_sqrt_approx_f(square);
    /* Worlds begin anew at different times. */
    u32 end = (time + world * 7u) % length == length - 1;
    ended[world] = end;
    if (end) begin_world(state, world, time + 1, seed);
}

/* Generalised advantages (Schulman et al., 2015, arXiv 1506.02438) of [steps][count] rewards; values has one step more. */
KERNEL find_advantages(const float *restrict rewards, const u32 *restrict ended, const float *restrict values,
                       float *restrict advantages, float *restrict returns, u32 count, u32 steps,
                       float discount, float decay) {
    u32 world = global_thread();
    if (world >= count) return;
    float advantage = 0.0f;
    for (u32 back = 0; back < steps; back++) {
        u64 at = (u64)(steps - 1 - back) * count + world;
        float goes_on = ended[at] ? 0.0f : 1.0f;
        float error = rewards[at] + discount * goes_on * values[at + count] - values[at];
        advantage = error + discount * decay * goes_on * advantage;
        advantages[at] = advantage;
        returns[at] = advantage + values[at];
    }
}

SHARED float sums[256];
SHARED float squares[256];

/* partial[2 * block], [2 * block + 1]: sum and sum of squares of a block's share of values; 256 threads. */
KERNEL add_values(const float *restrict values, float *restrict partial, u32 count) {
    float sum = 0.0f, square = 0.0f;
    for (u32 i = global_thread(); i < count; i += BLOCKS_X * 256) {
        sum += values[i];
        square += values[i] * values[i];
    }
    sums[THREAD_X] = sum;
    squares[THREAD_X] = square;
    BARRIER();
    for (u32 half = 128; half > 0; half /= 2) {
        if ((u32)THREAD_X < half) {
            sums[THREAD_X] += sums[THREAD_X + half];
            squares[THREAD_X] += squares[THREAD_X + half];
        }
        BARRIER();
    }
    if (THREAD_X == 0) {
        partial[2 * BLOCK_X] = sums[0];
        partial[2 * BLOCK_X + 1] = squares[0];
    }
}

/* A permutation of 0 ... 2^bits - 1 that depends on the key: a Feistel network of four rounds, its halves of unequal size
   where bits is odd. */
static inline u32 permuted(u32 index, u32 bits, u32 key) {
    u32 low_bits = bits / 2, high_bits = bits - low_bits;
    u32 low_mask = (1u << low_bits) - 1, high_mask = (1u << high_bits) - 1;
    u32 low = index & low_mask, high = index >> low_bits;
    for (u32 round = 0; round < 4; round++) {
        high ^= random_bits(low, round * 2, key) & high_mask;
        low ^= random_bits(high, round * 2 + 1, key) & low_mask;
    }
    return high << low_bits | low;
}

/* Rows first ... first + count - 1 of the shuffled rows 0 ... 2^bits - 1: their numbers, and what the network saw there. */
KERNEL gather(const float *restrict seen, float *restrict batch, u32 *restrict rows, u32 first, u32 count, u32 features,
              u32 bits, u32 key) {
    u32 place = global_thread();
    if (place >= count * features) return;
    u32 row = permuted(first + place / features, bits, key), feature = place % features;
    if (feature == 0) rows[place / features] = row;
    batch[place] = seen[(u64)row * features + feature];
}

/* Gradients of the loss by logits[count][choices] and values[count], divided by count, and per row what is reported:
   policy loss, value loss, entropy, whether the ratio was clipped, in told[4][count]. `moments` are sum and sum of squares of
   all advantages. */
KERNEL find_loss(const float *restrict logits, const float *restrict values, const u32 *restrict rows,
                 const u32 *restrict actions, const float *restrict old_log_probabilities,
                 const float *restrict advantages, const float *restrict returns, const float *restrict moments,
                 float *restrict logits_gradient, float *restrict values_gradient, float *restrict told,
                 u32 count, u32 choices, u32 all, float clip, float entropy_weight, float value_weight) {
    u32 i = global_thread();
    if (i >= count) return;
    u32 row = rows[i], action = actions[row];
    float mean = moments[0] / (float)all;
    float variance = larger(moments[1] / (float)all - mean * mean, 0.0f);
    float advantage = (advantages[row] - mean) / (__nvvm_sqrt_approx_f(variance) + 1e-8f);
    const float *own = logits + (u64)i * choices;
    float top = own[0], total = 0.0f;
    for (u32 c = 1; c < choices; c++) top = larger(top, own[c]);
    for (u32 c = 0; c < choices; c++) total += exponential(own[c] - top);
    float log_total = top + logarithm(total), entropy = 0.0f;
    for (u32 c = 0; c < choices; c++) entropy -= exponential(own[c] - log_total) * (own[c] - log_total);
    float ratio = exponential(own[action] - log_total - old_log_probabilities[row]);
    float limited = smaller(larger(ratio, 1.0f - clip), 1.0f + clip);
    float straight = ratio * advantage, clipped = limited * advantage;
    float slope = straight <= clipped ? straight : 0.0f; /* of min(straight, clipped) by the action's log probability */
    float share = 1.0f / (float)count;
    for (u32 c = 0; c < choices; c++) {
        float log_probability = own[c] - log_total, probability = exponential(log_probability);
        float gradient = -slope * ((c == action ? 1.0f : 0.0f) - probability);
        gradient += entropy_weight * probability * (log_probability + entropy);
        logits_gradient[(u64)i * choices + c] = gradient * share;
    }
    float error = values[i] - returns[row];
    values_gradient[i] = 2.0f * value_weight * error * share;
    told[i] = -smaller(straight, clipped);
    told[count + i] = error * error;
    told[2 * count + i] = entropy;
    told[3 * count + i] = ratio == limited ? 0.0f : 1.0f;
}

/* Adam (Kingma and Ba, 2014, arXiv 1412.6980) with the gradient's norm limited; `moments[1]` is its square. `first_share` and
   `second_share` are 1 - beta^step. */
KERNEL adam(float *restrict parameters, const float *restrict gradient, float *restrict first, float *restrict second,
            const float *restrict moments, u32 count, float rate, float first_share, float second_share,
            float largest_norm) {
    u32 i = global_thread();
    if (i >= count) return;
    float norm = __nvvm_sqrt_approx_f(moments[1]);
    float g = norm > largest_norm ? gradient[i] * (largest_norm / norm) : gradient[i];
    float m = 0.9f * first[i] + 0.1f * g, v = 0.999f * second[i] + 0.001f * g * g;
    first[i] = m;
    second[i] = v;
    parameters[i] -= rate * (m / first_share) / (__nvvm_sqrt_approx_f(v / second_share) + 1e-5f);
}

/* moments[0], [1] = the sums of partial[2 * i] and partial[2 * i + 1]; one thread, few parts. */
KERNEL add_moments(const float *restrict partial, float *restrict moments, u32 parts) {
    float sum = 0.0f, square = 0.0f;
    for (u32 i = 0; i < parts; i++) {
        sum += partial[2 * i];
        square += partial[2 * i + 1];
    }
    moments[0] = sum;
    moments[1] = square;
}

/* Evenly in [-bound, bound). */
KERNEL begin_weights(float *weights, u32 count, float bound, u32 stream, u32 seed) {
    u32 i = global_thread();
    if (i < count) weights[i] = (2.0f * random_float(i, stream, seed) - 1.0f) * bound;
}
