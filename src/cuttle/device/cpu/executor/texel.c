/* Formats of texels, and sums of texels as an H200 makes them (texture.c has the rules). */
#include "texture.h"

#include <math.h>
#include <string.h>

#define FLOAT_NAN 0x7fffffffu
#define HALF_NAN 0x7fffe000u

/* The bits of a channel as they are in memory, sign extended if it is signed; of the border where there is no texel. */
static uint32_t raw_bits(const access *a, const uint8_t *texel, uint32_t channel)
{
    const cuttle_texture *texture = a->texture;
    if (channel >= texture->channels) return 0;
    if (texel == NULL) return a->sampler->border[channel];
    bool is_signed = texture->kind == CUTTLE_TEXTURE_KIND_SIGNED;
    switch (texture->component_bytes) {
    case 1: return is_signed ? (uint32_t)(int8_t)texel[channel] : texel[channel];
    case 2: {
        uint16_t half;
        memcpy(&half, texel + 2 * channel, 2);
        return is_signed ? (uint32_t)(int16_t)half : half;
    }
    default: {
        uint32_t word;
        memcpy(&word, texel + 4 * channel, 4);
        return word;
    }
    }
}

static float of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, 4);
    return value;
}

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, 4);
    return bits;
}

static uint32_t widened(uint32_t half)
{
    uint32_t sign = (half & 0x8000) << 16, exponent = half >> 10 & 31, fraction = half & 0x3ff;
    if (exponent == 31) return sign | 0x7f800000 | fraction << 13;
    if (exponent != 0) return sign | (exponent + 112) << 23 | fraction << 13;
    return sign | bits_of((float)fraction * 0x1p-24f);
}

uint32_t texel_as_half(uint32_t bits)
{
    uint32_t sign = bits >> 16 & 0x8000;
    float value = fabsf(of_bits(bits));
    if (isnan(value)) return 0x7fff;
    if (value >= 65520.0f) return sign | 0x7c00;
    if (value < 0x1p-14f) return sign | (uint32_t)rintf(value * 0x1p24f);
    uint32_t magnitude = bits & 0x7fffffff, odd = magnitude >> 13 & 1;
    return sign | ((magnitude + 0xfff + odd - (112u << 23)) >> 13);
}

/* What sRGB's 256 values are on the hardware: small floats, given as a numerator of 2^16. */
static const uint32_t srgb_values[256] = {
    0, 20, 40, 60, 80, 100, 120, 140, 160, 180, 200, 220, 240, 264, 288, 312, 340, 368,
    396, 428, 460, 492, 524, 560, 600, 636, 676, 720, 760, 804, 852, 896, 944, 1000, 1048, 1104,
    1160, 1216, 1272, 1328, 1392, 1456, 1520, 1584, 1648, 1720, 1792, 1864, 1936, 2016, 2096, 2176, 2256, 2336,
    2416, 2496, 2592, 2688, 2768, 2864, 2960, 3056, 3152, 3264, 3360, 3456, 3584, 3680, 3776, 3904, 4000, 4128,
    4256, 4352, 4480, 4608, 4736, 4864, 4992, 5120, 5248, 5408, 5536, 5664, 5824, 5952, 6112, 6240, 6400, 6560,
    6688, 6848, 7008, 7168, 7328, 7488, 7680, 7808, 8000, 8192, 8320, 8512, 8704, 8896, 9088, 9280, 9472, 9664,
    9856, 10048, 10240, 10432, 10624, 10816, 11008, 11264, 11456, 11648, 11904, 12096, 12288, 12544, 12736, 12992, 13184, 13440,
    13696, 13888, 14144, 14400, 14656, 14848, 15104, 15360, 15616, 15872, 16128, 16384, 16640, 16896, 17152, 17408, 17664, 18048,
    18304, 18560, 18816, 19072, 19456, 19712, 19968, 20224, 20608, 20864, 21120, 21504, 21760, 22144, 22400, 22784, 23040, 23296,
    23680, 24064, 24320, 24704, 24960, 25344, 25600, 25984, 26368, 26752, 27008, 27392, 27776, 28032, 28416, 28800, 29184, 29568,
    29952, 30336, 30720, 30976, 31488, 31744, 32256, 32512, 33024, 33280, 33792, 34048, 34560, 35072, 35328, 35840, 36096, 36608,
    37120, 37376, 37888, 38400, 38656, 39168, 39680, 39936, 40448, 40960, 41216, 41728, 42240, 42752, 43264, 43520, 44032, 44544,
    45056, 45568, 45824, 46336, 46848, 47360, 47872, 48384, 48896, 49408, 49920, 50432, 50944, 51456, 51968, 52480, 52992, 53504,
    54016, 54528, 55040, 55552, 56064, 56576, 57088, 57600, 58112, 58624, 59392, 59904, 60416, 60928, 61440, 61952, 62464, 62976,
    64000, 64512, 65024, 65536,
};

/* Some of them are written with the next larger exponent, which counts where values are aligned. */
static const uint8_t srgb_lifted[32] = {
    0, 0, 0, 0, 3, 0, 3, 0, 127, 0, 0, 0, 7, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 15, 0, 0, 0, 0, 0, 0, 0, 127,
};

enum { FORMAT_FLOAT, FORMAT_HALF, FORMAT_SRGB, FORMAT_UNORM, FORMAT_SNORM, FORMAT_RAW };

static int format_of(const access *a, uint32_t channel)
{
    const cuttle_texture *texture = a->texture;
    if (texture->kind == CUTTLE_TEXTURE_KIND_FLOAT) return texture->component_bytes == 4 ? FORMAT_FLOAT : FORMAT_HALF;
    if (!has(a->sampler, CUTTLE_TEXTURE_FLAG_NORMALISED_READ)) return FORMAT_RAW;
    if (has(a->sampler, CUTTLE_TEXTURE_FLAG_SRGB) && texture->component_bytes == 1 &&
        texture->kind == CUTTLE_TEXTURE_KIND_UNSIGNED && channel < (texture->channels == 4 ? 3u : 1u)) {
        return FORMAT_SRGB;
    }
    return texture->kind == CUTTLE_TEXTURE_KIND_UNSIGNED ? FORMAT_UNORM : FORMAT_SNORM;
}

/* A texel that is not filtered. */
static uint32_t decoded(const access *a, int format, uint32_t raw)
{
    bool byte = a->texture->component_bytes == 1;
    switch (format) {
    case FORMAT_HALF: return widened(raw);
    case FORMAT_SRGB: return bits_of((float)srgb_values[raw & 255] / 65536.0f);
    case FORMAT_UNORM: return bits_of((float)raw / (byte ? 255.0f : 65535.0f));
    case FORMAT_SNORM: return bits_of(fmaxf((float)(int32_t)raw / (byte ? 127.0f : 32767.0f), -1.0f));
    default: return raw;
    }
}

/* A finite float as mantissa times 2 to the exponent minus the mantissa's fraction bits. */
typedef struct parts {
    int64_t mantissa;
    int32_t exponent;
} parts;

static parts parts_of(int format, uint32_t raw)
{
    if (format == FORMAT_SRGB) {
        uint32_t value = srgb_values[raw & 255];
        if (value == 0) return (parts){0, INT32_MIN};
        int32_t exponent = 31 - __builtin_clz(value);
        if ((srgb_lifted[raw >> 3 & 31] >> (raw & 7) & 1) != 0) exponent++;
        return (parts){exponent >= 7 ? value >> (exponent - 7) : value << (7 - exponent), exponent - 16};
    }
    uint32_t fraction = format == FORMAT_FLOAT ? 23 : 10;
    int32_t most = format == FORMAT_FLOAT ? 255 : 31, exponent = raw >> fraction & most;
    bool negative = (raw >> (format == FORMAT_FLOAT ? 31 : 15) & 1) != 0;
    int64_t mantissa = raw & ((1u << fraction) - 1);
    if (exponent == 0 && (mantissa == 0 || format == FORMAT_FLOAT)) return (parts){0, INT32_MIN};
    if (exponent != 0) mantissa |= 1u << fraction;
    if (exponent == 0) exponent = 1;
    mantissa <<= 4; /* guard bits */
    return (parts){negative ? -mantissa : mantissa, exponent - most / 2};
}

/* NaN and infinity in a sum: the bits of the result, or 0 if all is finite. */
static uint32_t special_sum(const access *a, int format, uint32_t channel)
{
    uint32_t infinite = format == FORMAT_FLOAT ? 0x7f800000 : 0x7c00, nan = format == FORMAT_FLOAT ? FLOAT_NAN : HALF_NAN;
    uint32_t result = 0;
    for (uint32_t q = 0; q < a->count; q++) {
        for (uint32_t i = 0; i < 4; i++) {
            if (!a->quads[q].present[i]) continue;
            uint32_t raw = raw_bits(a, a->quads[q].texel[i], channel);
            if ((raw & infinite) != infinite) continue;
            uint32_t here = raw & (format == FORMAT_FLOAT ? 0x80000000 : 0x8000);
            bool is_nan = (raw & (infinite ^ (format == FORMAT_FLOAT ? 0x7fffffff : 0x7fff))) != 0;
            uint32_t value = is_nan ? nan : (format == FORMAT_FLOAT ? here : here << 16) | 0x7f800000;
            result = result == 0 || result == value ? value : nan;
        }
    }
    return result;
}

/* The value numerator * 2^exponent, rounded to `bits` fraction bits behind the leading one, halves away from zero. */
static double rounded(int64_t numerator, int32_t exponent, int32_t bits, int32_t least_exponent)
{
    if (numerator == 0) return 0;
    uint64_t magnitude = numerator < 0 ? 0 - (uint64_t)numerator : (uint64_t)numerator;
    int32_t leading = 63 - __builtin_clzll(magnitude), top = leading + exponent;
    int32_t drop = leading - bits;
    if (top < least_exponent) drop += least_exponent - top;
    if (drop > 0) {
        magnitude = drop > 63 ? 0 : (magnitude + (1ull << (drop - 1))) >> drop;
        exponent += drop;
    }
    double value = ldexp((double)magnitude, exponent);
    return numerator < 0 ? -value : value;
}

static int64_t shifted_down(int64_t value, int64_t amount)
{
    return amount > 63 ? (value < 0 ? -1 : 0) : value >> amount;
}

/* Whether all zeros of a sum are negative ones. */
static bool all_negative(const access *a, int format, uint32_t channel)
{
    uint32_t sign = format == FORMAT_FLOAT ? 0x80000000 : format == FORMAT_HALF ? 0x8000 : 0;
    for (uint32_t q = 0; q < a->count; q++) {
        for (uint32_t i = 0; i < 4; i++) {
            const quad *from = &a->quads[q];
            if (from->present[i] && (raw_bits(a, from->texel[i], channel) & sign) == 0) return false;
        }
    }
    return true;
}

static uint32_t sum_of_floats(const access *a, int format, uint32_t channel)
{
    if (format != FORMAT_SRGB) {
        uint32_t special = special_sum(a, format, channel);
        if (special != 0) return special;
    }
    /* Fraction bits of an aligned texel, and of the sum of slices beyond those (256 weights, and one more bit of floats). */
    int32_t kept = format == FORMAT_FLOAT ? 27 : format == FORMAT_HALF ? 14 : 7, spare = 1;
    int64_t total = 0;
    int32_t total_exponent = INT32_MIN;
    for (uint32_t q = 0; q < a->count; q++) {
        const quad *from = &a->quads[q];
        parts part[4];
        int32_t largest = INT32_MIN;
        for (uint32_t i = 0; i < 4; i++) {
            part[i] = from->weight[i] != 0 ? parts_of(format, raw_bits(a, from->texel[i], channel)) : (parts){0, INT32_MIN};
            if (part[i].exponent > largest) largest = part[i].exponent;
        }
        if (largest == INT32_MIN) continue;
        int64_t sum = 0;
        for (uint32_t i = 0; i < 4; i++) {
            if (part[i].mantissa == 0) continue;
            int64_t down = (int64_t)largest - part[i].exponent;
            int64_t magnitude = part[i].mantissa < 0 ? -part[i].mantissa : part[i].mantissa;
            magnitude = shifted_down(magnitude, down);
            sum += (part[i].mantissa < 0 ? -magnitude : magnitude) * (int64_t)from->weight[i];
        }
        sum *= (int64_t)1 << spare;
        if (total_exponent == INT32_MIN) {
            total = sum;
            total_exponent = largest;
        } else if (largest > total_exponent) {
            total = shifted_down(total, (int64_t)largest - total_exponent) + sum;
            total_exponent = largest;
        } else {
            total += shifted_down(sum, (int64_t)total_exponent - largest);
        }
    }
    if (total_exponent == INT32_MIN) return all_negative(a, format, channel) ? 0x80000000 : 0;
    int32_t exponent = total_exponent - kept - 8 - spare;
    if (format == FORMAT_FLOAT) return bits_of((float)rounded(total, exponent, 23, -126));
    return bits_of((float)rounded(total, exponent, 10, -14));
}

/* Integers in 16-bit fixed point. */
static uint32_t sum_of_integers(const access *a, int format, uint32_t channel)
{
    int64_t sum = 0;
    bool byte = a->texture->component_bytes == 1;
    for (uint32_t q = 0; q < a->count; q++) {
        for (uint32_t i = 0; i < 4; i++) {
            const quad *from = &a->quads[q];
            if (from->weight[i] == 0) continue;
            uint32_t raw = raw_bits(a, from->texel[i], channel);
            sum += (a->texture->kind == CUTTLE_TEXTURE_KIND_UNSIGNED ? (int64_t)raw : (int64_t)(int32_t)raw) * from->weight[i];
        }
    }
    if (format == FORMAT_RAW) return (uint32_t)((sum + (a->texture->component_bytes < 4 ? 128 : 0)) >> 8);
    if (format == FORMAT_UNORM) return bits_of((float)((byte ? 257 * sum + 128 : sum + 128) >> 8) / 65535.0f);
    int64_t value = byte ? sum + (((sum >> 4) * 257 + 1024) >> 11) : (sum + 128) >> 8;
    value = value > 32767 ? 32767 : value < -32767 ? -32767 : value;
    return bits_of((float)value / 32767.0f);
}

uint32_t texel_value(const access *a, const uint8_t *texel, uint32_t channel)
{
    return decoded(a, format_of(a, channel), raw_bits(a, texel, channel));
}

uint32_t texel_sum(const access *a, uint32_t channel)
{
    int format = format_of(a, channel);
    return format <= FORMAT_SRGB ? sum_of_floats(a, format, channel) : sum_of_integers(a, format, channel);
}

/* A texel by itself, but on the way of filtered ones; that which is not there at a corner of a cube map is the mean of the
 * three others. */
uint32_t texel_gathered(const access *a, uint32_t number, uint32_t channel)
{
    access alone = *a;
    quad *q = &alone.quads[0];
    memset(q->weight, 0, sizeof q->weight);
    q->weight[number] = 256;
    if (q->shared == number + 1) {
        texture_share_corner(q, number);
        return texel_sum(&alone, channel);
    }
    int format = format_of(a, channel);
    return format == FORMAT_SNORM ? texel_sum(&alone, channel) : decoded(a, format, raw_bits(a, q->texel[number], channel));
}
