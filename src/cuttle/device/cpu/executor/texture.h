/* One access to a texture: where its texels are (texture.c), which levels count (texture_level.c), what they are (texel.c). */
#ifndef CUTTLE_TEXTURE_H
#define CUTTLE_TEXTURE_H

#include "executor.h"

#define MOST_QUADS 4 /* two levels of two slices */

typedef struct quad { /* the texels of a slice, x first */
    const uint8_t *texel[4];
    uint32_t weight[4];
    bool present[4]; /* its column and row have a weight that is not exactly 0 */
    uint32_t shared; /* 1 + the texel that is not there, as at the corners of a cube map; else 0 */
} quad;

typedef struct access {
    const cuttle_texture *texture, *sampler;
    uint32_t form, dimensions;
    int32_t layer;
    float coordinate[3];
    int32_t number[3], offset[3];
    quad quads[MOST_QUADS];
    uint32_t count;
    bool filtered;
} access;

static inline bool has(const cuttle_texture *texture, uint32_t flag)
{
    return (texture->flags & flag) != 0;
}

static inline float texture_flushed(float value)
{
    return !(value >= 0x1p-126f || value <= -0x1p-126f) ? 0.0f : value;
}

/* Cube maps: faces in CUDA's order +x, -x, +y, -y, +z, -z; their s, t and outward axes, each with its sign. */
typedef struct face_axes {
    int8_t s, s_sign, t, t_sign, out, out_sign;
} face_axes;

extern const face_axes texture_faces[6];
uint32_t texture_face_of(const float direction[3]);
void texture_share_corner(quad *of, uint32_t corner);

/* texture_level.c: levels of detail, in 1/256 of a level. */
int32_t texture_level_of_gradients(const access *a, const float *first, const float *second);
int32_t texture_level_of_number(float level);
uint32_t texture_steepened(const cuttle_texture *sampler, int32_t fraction);

/* texel.c: a channel of one texel (NULL: the border), of all texels of an access by their weights, and of texel `number` of its
 * first quad where it is gathered. */
uint32_t texel_value(const access *a, const uint8_t *texel, uint32_t channel);
uint32_t texel_sum(const access *a, uint32_t channel);
uint32_t texel_gathered(const access *a, uint32_t number, uint32_t channel);
uint32_t texel_as_half(uint32_t bits);

#endif
