/* Levels of detail as an H200 chooses them. From gradients they may be off by 2/256; everything else is exact. */
#include "texture.h"

#include <math.h>

/* 256 times the binary logarithm of 1 + i/256, as the hardware has it. */
static const uint8_t logarithms[256] = {
    0, 2, 4, 5, 6, 8, 9, 11, 12, 13, 15, 16, 18, 19, 20, 22, 23, 24, 26, 27, 28, 30, 31, 32,
    34, 35, 36, 38, 39, 40, 42, 43, 44, 45, 47, 48, 49, 50, 52, 53, 54, 55, 57, 58, 59, 60, 62, 63,
    64, 65, 66, 68, 69, 70, 71, 72, 74, 75, 76, 77, 78, 79, 81, 82, 83, 84, 85, 86, 88, 89, 90, 91,
    92, 93, 94, 95, 97, 98, 99, 100, 101, 102, 103, 104, 105, 106, 107, 109, 110, 111, 112, 113, 114, 115, 116, 117,
    118, 119, 120, 121, 122, 123, 124, 125, 126, 127, 128, 129, 130, 131, 132, 133, 135, 136, 137, 137, 138, 139, 140, 141,
    142, 143, 144, 145, 146, 147, 148, 149, 150, 151, 152, 153, 154, 155, 156, 157, 158, 159, 160, 161, 162, 162, 163, 164,
    165, 166, 167, 168, 169, 170, 171, 172, 173, 173, 174, 175, 176, 177, 178, 179, 180, 181, 181, 182, 183, 184, 185, 186,
    187, 188, 188, 189, 190, 191, 192, 193, 194, 195, 195, 196, 197, 198, 199, 200, 200, 201, 202, 203, 204, 205, 205, 206,
    207, 208, 209, 210, 210, 211, 212, 213, 214, 214, 215, 216, 217, 218, 218, 219, 220, 221, 222, 222, 223, 224, 225, 226,
    226, 227, 228, 229, 229, 230, 231, 232, 233, 233, 234, 235, 236, 236, 237, 238, 239, 239, 240, 241, 242, 242, 243, 244,
    245, 245, 246, 247, 248, 248, 249, 250, 251, 251, 252, 253, 253, 254, 255, 255,
};

/* A level of detail from a footprint, in 1/256 of a level. */
static int32_t level_of_length(double length)
{
    if (!(length > 0)) return INT16_MIN;
    if (isinf(length)) return INT16_MAX;
    int exponent;
    double mantissa = frexp(length, &exponent);
    return (exponent - 1) * 256 + logarithms[(uint32_t)(mantissa * 512) - 256];
}

/* Cut to `bits` fraction bits behind the leading one. */
static double cut(double value, int bits)
{
    int exponent;
    double mantissa = frexp(value, &exponent);
    return ldexp(trunc(ldexp(mantissa, bits + 1)), exponent - bits - 1);
}

/* The largest component, 11/32 of the second and 1/4 of the third: close to the Euclidean length. */
static double length_of(const double *vector)
{
    double x = fabs(vector[0]), y = fabs(vector[1]), z = fabs(vector[2]);
    double most = fmax(x, fmax(y, z)), least = fmin(x, fmin(y, z)), middle = fmax(fmin(x, y), fmin(fmax(x, y), z));
    if (!(most > 0) || isinf(most)) return most;
    int exponent;
    frexp(most, &exponent);
    return most + ldexp(floor(ldexp(middle * 11 / 32 + least / 4, 10 - exponent)), exponent - 10);
}

/* What a step in a cube map's direction is on the face: the difference of two places. */
static void step_on_face(const float direction[3], const float step[3], float on_face[3])
{
    const face_axes *face = &texture_faces[texture_face_of(direction)];
    float far = fabsf(direction[face->out] + step[face->out]), near = fabsf(direction[face->out]);
    on_face[0] = ((direction[face->s] + step[face->s]) / far - direction[face->s] / near) / 2;
    on_face[1] = ((direction[face->t] + step[face->t]) / far - direction[face->t] / near) / 2;
    on_face[2] = 0;
}

/* The longer axis of a pixel's footprint: the gradients themselves, or turned by an eighth. */
int32_t texture_level_of_gradients(const access *a, const float *first, const float *second)
{
    const cuttle_texture *texture = a->texture;
    uint32_t sizes[3] = {texture->width, texture->height, texture->depth};
    double one[3] = {0}, two[3] = {0}, sum[3], difference[3];
    bool scaled = has(a->sampler, CUTTLE_TEXTURE_FLAG_NORMALISED_COORDINATES) || (a->form & CUTTLE_TEXTURE_FORM_CUBE) != 0;
    float on_face[2][3];
    if ((a->form & CUTTLE_TEXTURE_FORM_CUBE) != 0) {
        step_on_face(a->coordinate, first, on_face[0]);
        step_on_face(a->coordinate, second, on_face[1]);
        first = on_face[0], second = on_face[1];
    }
    for (uint32_t i = 0; i < a->dimensions; i++) {
        one[i] = cut((double)texture_flushed(first[i]) * (scaled ? sizes[i] : 1), 9);
        two[i] = cut((double)texture_flushed(second[i]) * (scaled ? sizes[i] : 1), 9);
    }
    for (uint32_t i = 0; i < 3; i++) {
        sum[i] = (one[i] + two[i]) * 11 / 16;
        difference[i] = (one[i] - two[i]) * 11 / 16;
    }
    double length = fmax(fmax(length_of(one), length_of(two)), fmax(length_of(sum), length_of(difference)));
    return level_of_length(length);
}

int32_t texture_level_of_number(float level)
{
    double value = texture_flushed(level);
    return value >= 64 ? 64 * 256 : value <= -64 ? -64 * 256 : (int32_t)(value * 256); /* towards 0 */
}


/* "Trilinear optimisation", which comes with anisotropy: the nearer level counts alone for a while around it. */
uint32_t texture_steepened(const cuttle_texture *sampler, int32_t fraction)
{
    int32_t result = fraction;
    switch ((sampler->flags & CUTTLE_TEXTURE_FLAG_STEEPNESS) >> CUTTLE_TEXTURE_FLAG_STEEPNESS_SHIFT) {
    case 1: result = (3 * fraction - 126) >> 1; break;
    case 2: result = (7 * fraction - 378) >> 2; break;
    case 3: result = 2 * fraction - 128; break;
    default: break;
    }
    return (uint32_t)(result < 0 ? 0 : result > 256 ? 256 : result);
}
