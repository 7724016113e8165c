/* Textures as an NVIDIA H200 reads them, bit for bit: coordinates, filters, mipmap levels, cube maps.
 *
 * Everything here was found in recordings (`src/cuttle/sweep/recordings/golden_textures.xz`, replayed by `tests/textures`):
 *
 * Coordinates. Normalised ones are cut to 21 fraction bits (towards minus infinity), then multiplied by the size. Linear
 * filtering looks half a texel to the left, rounded to 1/256 of a texel. NaN counts as 0, subnormals as well.
 *
 * Weights are integers that sum to 256. They are split level by level, slice by slice, column by column,
 * row by row, and rounded at each split. An axis on which clamping made one texel of both is not split.
 *
 * Sums. Integers are added exactly in 16-bit fixed point. Floats are aligned to the largest exponent of the (up to four)
 * texels of a slice, cut to a few guard bits, and added exactly; slices are added likewise, cut towards minus infinity. The
 * result is rounded once, halves away from zero. */
#include "texture.h"

#include <float.h>
#include <math.h>
#include <string.h>

#define ONE 21          /* fraction bits of a coordinate */
#define OUTSIDE INT64_MIN

/* ------------------------------------------------------------------------------------------------------ one texture */

typedef struct axis {
    int64_t first, second; /* texel numbers in range, or OUTSIDE: the border */
    uint32_t fraction;     /* weight of the second, of 256 */
} axis;

static const cuttle_texture_level *level_of(const cuttle_texture *texture, uint32_t level)
{
    return (const cuttle_texture_level *)(uintptr_t)texture->level_table + level;
}

static int64_t floor_division(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

static int64_t fixed(double value, double limit)
{
    double bounded = value > limit ? limit : value < -limit ? -limit : value;
    return (int64_t)floor(bounded * (1 << ONE));
}

/* A coordinate in texels, with ONE fraction bits; wrapped ones stay within two widths, mirrored ones as well. */
static int64_t in_texels(const access *a, uint32_t number, uint32_t mode, uint32_t size)
{
    double value = texture_flushed(a->coordinate[number]);
    if ((a->form & CUTTLE_TEXTURE_FORM_CUBE) != 0) return fixed((fmax(fmin(value, 1), -1) + 1) / 2, 8) * size;
    if (!has(a->sampler, CUTTLE_TEXTURE_FLAG_NORMALISED_COORDINATES)) return fixed(value, 1 << 24);
    if (mode == CUTTLE_TEXTURE_ADDRESS_WRAP || mode == CUTTLE_TEXTURE_ADDRESS_MIRROR) {
        int64_t period = mode == CUTTLE_TEXTURE_ADDRESS_WRAP ? 1 : 2;
        if (fabs(value) >= 0x1p40) value = 0; /* a multiple of every period, or infinite */
        return (fixed(value, 0x1p41) & ((period << ONE) - 1)) * size;
    }
    return fixed(value, 8) * size;
}

static int64_t addressed(int64_t number, int64_t size, uint32_t mode)
{
    switch (mode) {
    case CUTTLE_TEXTURE_ADDRESS_WRAP: return number - floor_division(number, size) * size;
    case CUTTLE_TEXTURE_ADDRESS_MIRROR: {
        int64_t place = number - floor_division(number, 2 * size) * 2 * size;
        return place < size ? place : 2 * size - 1 - place;
    }
    case CUTTLE_TEXTURE_ADDRESS_BORDER: return number < 0 || number >= size ? OUTSIDE : number;
    default: return number < 0 ? 0 : number >= size ? size - 1 : number;
    }
}

static uint32_t mode_of(const access *a, uint32_t number)
{
    uint32_t mode = a->sampler->address_modes[number];
    bool free_coordinates = has(a->sampler, CUTTLE_TEXTURE_FLAG_NORMALISED_COORDINATES) || (a->form & CUTTLE_TEXTURE_FORM_CUBE) != 0;
    /* Without normalised coordinates, wrap and mirror are clamp (CUDA C++ Programming Guide, texture memory). */
    return free_coordinates || mode == CUTTLE_TEXTURE_ADDRESS_BORDER ? mode : CUTTLE_TEXTURE_ADDRESS_CLAMP;
}

/* The two texels around a coordinate, not yet brought into range. */
static axis around(const access *a, uint32_t number, uint32_t mode, uint32_t size, bool linear)
{
    int64_t texels = in_texels(a, number, mode, size);
    if (!linear) return (axis){(texels >> ONE) + a->offset[number], (texels >> ONE) + a->offset[number], 0};
    int64_t steps = (texels - (1 << (ONE - 1)) + (1 << (ONE - 9))) >> (ONE - 8);
    int64_t first = (steps >> 8) + a->offset[number];
    return (axis){first, first + 1, (uint32_t)(steps & 255)};
}

static axis resolved(axis at, uint32_t mode, uint32_t size)
{
    at.first = addressed(at.first, size, mode);
    at.second = addressed(at.second, size, mode);
    if (at.first == at.second && mode == CUTTLE_TEXTURE_ADDRESS_CLAMP) at.fraction = 0;
    return at;
}

/* A 1D texture is the first row of an image that is read at y = 0: halfway to the border if y has border addressing. One
 * with layers is not. */
static axis only_row(const access *a, bool linear)
{
    if ((a->form & CUTTLE_TEXTURE_FORM_LAYERED) != 0) return (axis){0};
    int64_t first = a->offset[1] - (linear ? 1 : 0), second = a->offset[1];
    return resolved((axis){first, second, linear ? 128 : 0}, mode_of(a, 1), 1);
}

/* -------------------------------------------------------------------------------------------------------- addresses */

static const uint8_t *texel_at(const access *a, const cuttle_texture_level *level, int64_t x, int64_t y, int64_t z)
{
    if (x == OUTSIDE || y == OUTSIDE || z == OUTSIDE) return NULL;
    uint64_t bytes = (uint64_t)a->texture->component_bytes * a->texture->channels;
    return (const uint8_t *)(uintptr_t)level->base + (uint64_t)z * level->slice_bytes + (uint64_t)y * level->pitch_bytes +
           (uint64_t)x * bytes;
}

/* Weights of a slice: columns are split off first, rounded up at a half; rows likewise, but towards the corner. */
static void split(quad *to, uint32_t weight, axis x, axis y)
{
    uint32_t right = (weight * x.fraction + 128) >> 8, left = weight - right;
    uint32_t upper_left = (left * (256 - y.fraction) + 128) >> 8, lower_right = (right * y.fraction + 128) >> 8;
    to->weight[0] = upper_left;
    to->weight[1] = right - lower_right;
    to->weight[2] = left - upper_left;
    to->weight[3] = lower_right;
    for (uint32_t i = 0; i < 4; i++) {
        to->present[i] = weight != 0 && ((i & 1) == 0 || x.fraction != 0) && ((i & 2) == 0 || y.fraction != 0);
    }
}

static void add_slice(access *a, const cuttle_texture_level *level, uint32_t weight, axis x, axis y, int64_t z)
{
    quad *to = &a->quads[a->count++];
    split(to, weight, x, y);
    for (uint32_t i = 0; i < 4; i++) {
        to->texel[i] = texel_at(a, level, (i & 1) != 0 ? x.second : x.first, (i & 2) != 0 ? y.second : y.first, z);
    }
}

/* -------------------------------------------------------------------------------------------------------- cube maps */

const face_axes texture_faces[6] = {
    {2, -1, 1, -1, 0, 1}, {2, 1, 1, -1, 0, -1}, {0, 1, 2, 1, 1, 1}, {0, 1, 2, -1, 1, -1}, {0, 1, 1, -1, 2, 1}, {0, -1, 1, -1, 2, -1},
};

/* The face that a direction points to; ties go to z, then y. NaNs are small, except where there is nothing else. */
uint32_t texture_face_of(const float direction[3])
{
    float x = fabsf(direction[0]), y = fabsf(direction[1]), z = fabsf(direction[2]);
    float most = fmaxf(x, fmaxf(y, z));
    uint32_t out = z == most || isnan(most) ? 2 : y == most ? 1 : 0;
    return 2 * out + (direction[out] < 0);
}

/* The texel of a neighbouring face behind an edge: positions count half texels from the middle of the cube. */
static const uint8_t *behind_edge(const access *a, const cuttle_texture_level *level, uint32_t face, int64_t x, int64_t y)
{
    int64_t size = level->width, place[3];
    const face_axes *from = &texture_faces[face];
    int64_t s = 2 * x + 1 - size, t = 2 * y + 1 - size, out = size;
    if (x < 0 || x >= size) s = x < 0 ? -size : size, out = size - 1;
    if (y < 0 || y >= size) t = y < 0 ? -size : size, out = size - 1;
    place[from->s] = s * from->s_sign;
    place[from->t] = t * from->t_sign;
    place[from->out] = out * from->out_sign;
    uint32_t axis_out = place[2] == size || place[2] == -size ? 2 : place[1] == size || place[1] == -size ? 1 : 0;
    uint32_t found = 2 * axis_out + (place[axis_out] < 0);
    const face_axes *to = &texture_faces[found];
    int64_t column = (place[to->s] * to->s_sign + size) / 2, row = (place[to->t] * to->t_sign + size) / 2;
    if (column >= size) column = size - 1;
    if (row >= size) row = size - 1;
    return texel_at(a, level, column, row, (int64_t)a->layer * 6 + found);
}

void texture_share_corner(quad *of, uint32_t corner)
{
    uint32_t weight = of->weight[corner], third = (weight + 1) / 3;
    of->weight[corner ^ 1] += third;
    of->weight[corner ^ 2] += third;
    of->weight[corner ^ 3] += weight - 2 * third;
    of->weight[corner] = 0;
}

/* Texels of a face; those behind its edges come from its neighbours. At a corner of the cube three faces meet: the weight of
 * the texel that does not exist goes to the three others. */
static void add_face(access *a, const cuttle_texture_level *level, uint32_t weight, axis x, axis y, uint32_t face)
{
    int64_t size = level->width;
    quad *to = &a->quads[a->count++];
    split(to, weight, x, y);
    for (uint32_t i = 0; i < 4; i++) {
        int64_t column = (i & 1) != 0 ? x.second : x.first, row = (i & 2) != 0 ? y.second : y.first;
        bool beside = column < 0 || column >= size, above = row < 0 || row >= size;
        if (beside && above) {
            texture_share_corner(to, i);
            to->present[i] = false;
            to->texel[i] = NULL;
            to->shared = i + 1;
        } else if (beside || above) {
            to->texel[i] = behind_edge(a, level, face, column, row);
        } else {
            to->texel[i] = texel_at(a, level, column, row, (int64_t)a->layer * 6 + face);
        }
    }
}

/* ------------------------------------------------------------------------------------------------------------ places */

static void add_level(access *a, uint32_t number, uint32_t weight)
{
    const cuttle_texture_level *level = level_of(a->texture, number);
    bool linear = has(a->sampler, CUTTLE_TEXTURE_FLAG_LINEAR) || (a->form & CUTTLE_TEXTURE_FORM_GATHER) != 0;
    axis x = around(a, 0, mode_of(a, 0), level->width, linear);
    if ((a->form & CUTTLE_TEXTURE_FORM_CUBE) != 0) {
        float direction[3] = {a->coordinate[0], a->coordinate[1], a->coordinate[2]};
        uint32_t face = texture_face_of(direction);
        access on_face = *a;
        on_face.coordinate[0] = direction[texture_faces[face].s] * texture_faces[face].s_sign;
        on_face.coordinate[1] = direction[texture_faces[face].t] * texture_faces[face].t_sign;
        x = around(&on_face, 0, 0, level->width, linear);
        axis y = around(&on_face, 1, 0, level->height, linear);
        if (has(a->sampler, CUTTLE_TEXTURE_FLAG_SEAMLESS) && linear) {
            add_face(a, level, weight, x, y, face);
        } else {
            bool clamped = has(a->sampler, CUTTLE_TEXTURE_FLAG_SEAMLESS);
            x = resolved(x, clamped ? CUTTLE_TEXTURE_ADDRESS_CLAMP : mode_of(a, 0), level->width);
            y = resolved(y, clamped ? CUTTLE_TEXTURE_ADDRESS_CLAMP : mode_of(a, 1), level->height);
            add_slice(a, level, weight, x, y, (int64_t)a->layer * 6 + face);
        }
        return;
    }
    x = resolved(x, mode_of(a, 0), level->width);
    axis y = a->dimensions > 1 ? resolved(around(a, 1, mode_of(a, 1), level->height, linear), mode_of(a, 1), level->height)
                               : only_row(a, linear);
    if (a->dimensions < 3) {
        add_slice(a, level, weight, x, y, a->layer);
        return;
    }
    axis z = resolved(around(a, 2, mode_of(a, 2), level->depth, linear), mode_of(a, 2), level->depth);
    uint32_t before = (weight * (256 - z.fraction) + 128) >> 8, behind = weight - before;
    add_slice(a, level, before, x, y, z.first);
    if (z.fraction != 0) add_slice(a, level, behind, x, y, z.second);
}

static void add_levels(access *a, int32_t detail)
{
    const cuttle_texture *sampler = a->sampler;
    int32_t last = ((int32_t)a->texture->levels - 1) * 256;
    int32_t level = detail + sampler->level_bias;
    if (level > sampler->most_level) level = sampler->most_level;
    if (level < sampler->least_level) level = sampler->least_level;
    level = level < 0 ? 0 : level > last ? last : level;
    a->filtered = has(sampler, CUTTLE_TEXTURE_FLAG_LINEAR | CUTTLE_TEXTURE_FLAG_LEVEL_LINEAR);
    if (!has(sampler, CUTTLE_TEXTURE_FLAG_LEVEL_LINEAR)) {
        add_level(a, (uint32_t)(level + 128) >> 8, 256);
        return;
    }
    uint32_t number = (uint32_t)level >> 8, fraction = texture_steepened(sampler, level & 255);
    if (fraction == 256) number++, fraction = 0;
    add_level(a, number, 256 - fraction);
    if (fraction != 0) add_level(a, number + 1, fraction);
}

/* ------------------------------------------------------------------------------------------------------------ accesses */

static void clamp_layer(access *a)
{
    bool cube = (a->form & CUTTLE_TEXTURE_FORM_CUBE) != 0;
    uint32_t layers = cube ? a->texture->depth / 6 : a->texture->depth, layer = (uint32_t)a->layer;
    a->layer = (int32_t)(layers == 0 ? 0 : layer < layers ? layer : layers - 1);
}

/* By texel numbers: 0 outside, whatever the address modes are; where a level is given, numbers are clamped to its edges. */
static void fetch(access *a, uint32_t level_number, uint32_t result[4])
{
    const cuttle_texture *texture = a->texture;
    memset(result, 0, 4 * sizeof *result);
    bool plain_row = a->dimensions == 1 && (a->form & CUTTLE_TEXTURE_FORM_LAYERED) == 0;
    bool buffer = has(texture, CUTTLE_TEXTURE_FLAG_BUFFER);
    bool clamped = (a->form & CUTTLE_TEXTURE_FORM_LEVEL) != 0;
    if (plain_row != buffer) return;
    if (buffer) level_number = 0;
    if (level_number >= texture->levels) return;
    if (clamped) clamp_layer(a);
    const cuttle_texture_level *level = level_of(texture, level_number);
    uint32_t sizes[3] = {level->width, level->height, level->depth};
    uint32_t number[3] = {0, 0, (uint32_t)a->layer};
    for (uint32_t i = 0; i < a->dimensions; i++) {
        int64_t moved = (int64_t)a->number[i] + a->offset[i];
        if (clamped) moved = addressed(moved, sizes[i], CUTTLE_TEXTURE_ADDRESS_CLAMP);
        if (moved < 0 || moved >= sizes[i]) return;
        number[i] = (uint32_t)moved;
    }
    if (number[2] >= level->depth) return;
    const uint8_t *texel = texel_at(a, level, number[0], number[1], number[2]);
    for (uint32_t channel = 0; channel < texture->channels; channel++) {
        result[channel] = texel_value(a, texel, channel);
    }
}

static void gather(access *a, uint32_t channel, uint32_t result[4])
{
    static const uint8_t order[4] = {2, 3, 1, 0};
    add_level(a, 0, 256);
    for (uint32_t i = 0; i < 4 && channel < a->texture->channels; i++) result[i] = texel_gathered(a, order[i], channel);
}

static uint32_t word_of(const uint32_t **column, uint32_t stride)
{
    uint32_t word = **column;
    *column += stride;
    return word;
}

static float of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, 4);
    return value;
}

static const cuttle_texture *handle_of(const uint32_t **column, uint32_t stride)
{
    uint64_t low = word_of(column, stride), high = word_of(column, stride);
    return (const cuttle_texture *)(uintptr_t)(high << 32 | low);
}

/* One lane: `column` is its first word; results go to `result`, which has the same stride. False: not known how. */
static bool access_lane(const uint32_t *column, uint32_t *result, uint32_t stride, uint32_t form)
{
    access a = {.form = form, .dimensions = form & CUTTLE_TEXTURE_FORM_DIMENSIONS};
    a.texture = handle_of(&column, stride);
    a.sampler = handle_of(&column, stride);
    if ((form & CUTTLE_TEXTURE_FORM_LAYERED) != 0) a.layer = (int32_t)word_of(&column, stride);
    for (uint32_t i = 0; i < a.dimensions; i++) {
        a.number[i] = (int32_t)word_of(&column, stride);
        a.coordinate[i] = of_bits((uint32_t)a.number[i]);
    }
    int32_t detail = INT16_MIN;
    uint32_t level = 0;
    if ((form & CUTTLE_TEXTURE_FORM_LEVEL) != 0) {
        level = word_of(&column, stride);
        detail = texture_level_of_number(of_bits(level));
    } else if ((form & CUTTLE_TEXTURE_FORM_GRADIENTS) != 0) {
        if (has(a.sampler, CUTTLE_TEXTURE_FLAG_ANISOTROPIC)) return false;
        float first[3] = {0}, second[3] = {0};
        for (uint32_t i = 0; i < a.dimensions; i++) first[i] = of_bits(word_of(&column, stride));
        for (uint32_t i = 0; i < a.dimensions; i++) second[i] = of_bits(word_of(&column, stride));
        detail = texture_level_of_gradients(&a, first, second);
    }
    if ((form & CUTTLE_TEXTURE_FORM_OFFSETS) != 0) {
        uint32_t packed = word_of(&column, stride);
        for (uint32_t i = 0; i < 3; i++) a.offset[i] = (int32_t)(packed << (24 - 8 * i)) >> 24;
    }
    uint32_t values[4] = {0};
    if ((form & CUTTLE_TEXTURE_FORM_INTEGER) != 0) {
        fetch(&a, level, values);
    } else if (!has(a.texture, CUTTLE_TEXTURE_FLAG_BUFFER)) {
        clamp_layer(&a);
        if ((form & CUTTLE_TEXTURE_FORM_GATHER) != 0) {
            gather(&a, form >> CUTTLE_TEXTURE_FORM_CHANNEL_SHIFT & 3, values);
        } else {
            add_levels(&a, detail);
            for (uint32_t channel = 0; channel < a.texture->channels; channel++) values[channel] = a.filtered ? texel_sum(&a, channel) : texel_value(&a, a.quads[0].texel[0], channel);
        }
    }
    for (uint32_t i = 0; i < 4; i++) {
        result[(uint64_t)i * stride] = (form & CUTTLE_TEXTURE_FORM_HALF) != 0 ? texel_as_half(values[i]) : values[i];
    }
    return true;
}

static uint32_t words_of(uint32_t form)
{
    uint32_t dimensions = form & CUTTLE_TEXTURE_FORM_DIMENSIONS, count = 4 + dimensions;
    if ((form & CUTTLE_TEXTURE_FORM_LAYERED) != 0) count++;
    if ((form & CUTTLE_TEXTURE_FORM_LEVEL) != 0) count++;
    if ((form & CUTTLE_TEXTURE_FORM_GRADIENTS) != 0) count += 2 * dimensions;
    if ((form & CUTTLE_TEXTURE_FORM_OFFSETS) != 0) count++;
    return count;
}

uint64_t service_texture(cuttle_block *block, uint32_t thread, uint64_t columns, uint64_t active, uint64_t stride, uint64_t form)
{
    (void)block;
    uint32_t *first = (uint32_t *)(uintptr_t)columns;
    uint32_t *results = first + stride * words_of((uint32_t)form);
    for (uint32_t lanes = (uint32_t)active; lanes != 0; lanes &= lanes - 1) {
        uint32_t lane = (uint32_t)__builtin_ctz(lanes);
        if (!access_lane(first + lane, results + lane, (uint32_t)stride, (uint32_t)form)) {
            fault_raise(CUTTLE_FAULT_TRAP, thread + lane, "gradients with anisotropic filtering are not built");
        }
    }
    return 0;
}
