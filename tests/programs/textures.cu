// Texture objects over linear memory, pitched memory and arrays, with both filters and all ways of addressing;
// surface objects.
#include "check.h"

constexpr int width = 64;
constexpr int height = 16;

// Interpolation has 8 bits of fraction; all coordinates below are multiples of 1/8, so little error is left.
constexpr float interpolation_error = 1e-2f;

__global__ void fetch_linear(cudaTextureObject_t texture, int* output, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) {
        output[i] = tex1Dfetch<int>(texture, count - 1 - i) + broken;
    }
}

__global__ void sample_1d(cudaTextureObject_t texture, const float* coordinates, float* output, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) {
        output[i] = tex1D<float>(texture, coordinates[i]);
    }
}

__global__ void sample_2d(cudaTextureObject_t texture, float shift, float* output)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < width && y < height) {
        output[y * width + x] = tex2D<float>(texture, x + 0.5f + shift, y + 0.5f + shift);
    }
}

__global__ void sample_colours(cudaTextureObject_t texture, float4* output)
{
    int i = threadIdx.x;
    output[i] = tex2D<float4>(texture, i + 0.5f, 0.5f);
}

__global__ void write_surface(cudaSurfaceObject_t surface)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < width && y < height) {
        float old = surf2Dread<float>(surface, x * sizeof(float), y);
        surf2Dwrite(old + 1000.0f, surface, x * sizeof(float), y);
    }
}

bool close(float actual, float expected, float tolerance = interpolation_error)
{
    float difference = actual > expected ? actual - expected : expected - actual;
    return difference <= tolerance;
}

// What a texel index outside of the texture means.
int address(int index, int size, cudaTextureAddressMode mode)
{
    switch (mode) {
    case cudaAddressModeWrap: return (index % size + size) % size;
    case cudaAddressModeMirror: {
        int period = (index % (2 * size) + 2 * size) % (2 * size);
        return period < size ? period : 2 * size - 1 - period;
    }
    case cudaAddressModeClamp: return index < 0 ? 0 : index >= size ? size - 1 : index;
    default: return index < 0 || index >= size ? -1 : index;
    }
}

float texel(const float* row, int index, int size, cudaTextureAddressMode mode)
{
    int place = address(index, size, mode);
    return place < 0 ? 0.0f : row[place];
}

int floor_of(float value)
{
    int whole = static_cast<int>(value);
    return value < whole ? whole - 1 : whole;
}

// `position` is in texels.
float sample_on_host(const float* row, int size, float position, cudaTextureAddressMode mode, bool linear)
{
    if (!linear) {
        return texel(row, floor_of(position), size, mode);
    }
    float shifted = position - 0.5f;
    int left = floor_of(shifted);
    float fraction = shifted - left;
    return (1 - fraction) * texel(row, left, size, mode) + fraction * texel(row, left + 1, size, mode);
}

// `mode` is how x is addressed, `others` how y and z are.
cudaTextureObject_t make_texture(const cudaResourceDesc& resource, cudaTextureAddressMode mode,
                                 cudaTextureAddressMode others, cudaTextureFilterMode filter, bool normalized)
{
    cudaTextureDesc description = {};
    description.addressMode[0] = mode;
    description.addressMode[1] = description.addressMode[2] = others;
    description.filterMode = filter;
    description.readMode = cudaReadModeElementType;
    description.normalizedCoords = normalized;
    cudaTextureObject_t texture = 0;
    CUDA(cudaCreateTextureObject(&texture, &resource, &description, nullptr));
    return texture;
}

cudaTextureObject_t make_texture(const cudaResourceDesc& resource, cudaTextureFilterMode filter)
{
    return make_texture(resource, cudaAddressModeClamp, cudaAddressModeClamp, filter, false);
}

void linear_memory()
{
    constexpr int count = 777;
    Array<int> data(count), output(count), expected(count);
    for (int i = 0; i < count; i++) {
        data[i] = i * i;
        expected[count - 1 - i] = i * i;
    }
    data.upload();
    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypeLinear;
    resource.res.linear.devPtr = data.device;
    resource.res.linear.desc = cudaCreateChannelDesc<int>();
    resource.res.linear.sizeInBytes = data.bytes();
    cudaTextureObject_t texture = make_texture(resource, cudaFilterModePoint);
    fetch_linear<<<blocks_for(count, 64), 64>>>(texture, output.device, count);
    FINISH();
    output.download();
    COMPARE(output.host, expected.host, count);
    CUDA(cudaDestroyTextureObject(texture));
    std::printf("linear memory: right\n");
}

// Linear filtering with a border is not what the formula says: an H200 gave half the value. It may depend on how the
// dimensions are addressed that a row does not have, so the record holds both, near the left end and in the middle.
void print_linear_border(const char* name, const cudaResourceDesc& resource, cudaTextureAddressMode others)
{
    constexpr int count = 12;
    Array<float> coordinates(count), output(count);
    for (int i = 0; i < count; i++) {
        coordinates[i] = (i < count / 2 ? -0.625f : 13.375f) + i * 0.25f;
    }
    coordinates.upload();
    cudaTextureObject_t texture = make_texture(resource, cudaAddressModeBorder, others, cudaFilterModeLinear, false);
    sample_1d<<<1, count>>>(texture, coordinates.device, output.device, count);
    FINISH();
    output.download();
    CUDA(cudaDestroyTextureObject(texture));
    std::printf("%s:", name);
    for (int i = 0; i < count; i++) {
        std::printf(" %.4f", output[i]);
    }
    std::printf("\n");
}

void one_dimension()
{
    constexpr int size = 32;
    constexpr int count = 4 * size * 3;
    float values[size];
    Random random;
    for (float& value : values) {
        value = static_cast<float>(random.below(64));
    }
    cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
    cudaArray_t array;
    CUDA(cudaMallocArray(&array, &format, size));
    CUDA(cudaMemcpy2DToArray(array, 0, 0, values, sizeof values, sizeof values, 1, cudaMemcpyHostToDevice));
    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypeArray;
    resource.res.array.array = array;

    struct Case {
        const char* name;
        cudaTextureAddressMode mode;
        bool normalized;
    };
    const Case cases[] = {{"clamp", cudaAddressModeClamp, false},
                          {"border", cudaAddressModeBorder, false},
                          {"clamp, normalized", cudaAddressModeClamp, true},
                          {"wrap", cudaAddressModeWrap, true},
                          {"mirror", cudaAddressModeMirror, true}};
    print_linear_border("border in every dimension", resource, cudaAddressModeBorder);
    print_linear_border("border in x alone", resource, cudaAddressModeClamp);
    Array<float> coordinates(count), output(count);
    for (const Case& one : cases) {
        for (bool linear : {false, true}) {
            if (linear && one.mode == cudaAddressModeBorder) {
                continue;
            }
            cudaTextureFilterMode filter = linear ? cudaFilterModeLinear : cudaFilterModePoint;
            cudaTextureObject_t texture =
                make_texture(resource, one.mode, cudaAddressModeClamp, filter, one.normalized);
            for (int i = 0; i < count; i++) {
                // From one width before to one width behind the texture, never on a boundary between texels.
                float position = i * 0.25f + 0.125f - size;
                coordinates[i] = one.normalized ? position / size : position;
            }
            coordinates.upload();
            sample_1d<<<blocks_for(count, 128), 128>>>(texture, coordinates.device, output.device, count);
            FINISH();
            output.download();
            for (int i = 0; i < count; i++) {
                float position = i * 0.25f + 0.125f - size;
                float expected = sample_on_host(values, size, position, one.mode, linear);
                if (!close(output[i], expected)) {
                    fail(__FILE__, __LINE__, "%s, %s, at %g: got %g, expected %g", one.name,
                         linear ? "linear" : "point", position, output[i], expected);
                }
            }
            CUDA(cudaDestroyTextureObject(texture));
        }
        std::printf("%s: right\n", one.name);
    }
    CUDA(cudaFreeArray(array));
}

// Linear filtering of an image; `mode` holds for both dimensions.
float bilinear_on_host(const float* image, float x, float y, cudaTextureAddressMode mode)
{
    float shifted = y - 0.5f;
    int top = floor_of(shifted);
    float fraction = shifted - top;
    float rows[2];
    for (int i = 0; i < 2; i++) {
        int row = address(top + i, height, mode);
        rows[i] = row < 0 ? 0.0f : sample_on_host(image + row * width, width, x, mode, true);
    }
    return (1 - fraction) * rows[0] + fraction * rows[1];
}

void require_image(cudaTextureObject_t texture, const float* image, float shift, bool linear)
{
    Array<float> output(width * height);
    sample_2d<<<dim3(blocks_for(width, 24), blocks_for(height, 5)), dim3(24, 5)>>>(texture, shift, output.device);
    FINISH();
    output.download();
    for (int y = 0; y < height; y++) {
        for (int x = 0; x < width; x++) {
            float expected = image[y * width + x];
            if (linear) {
                expected = bilinear_on_host(image, x + 0.5f + shift, y + 0.5f + shift, cudaAddressModeClamp);
            }
            if (!close(output[y * width + x], expected)) {
                fail(__FILE__, __LINE__, "texel %d, %d with shift %g: got %g, expected %g", x, y, shift,
                     output[y * width + x], expected);
            }
        }
    }
}

// Of two dimensions, too, the record holds how linear filtering with a border relates to the formula.
void print_image_with_border(cudaTextureObject_t texture, const float* image, float shift)
{
    Array<float> output(width * height);
    sample_2d<<<dim3(blocks_for(width, 24), blocks_for(height, 5)), dim3(24, 5)>>>(texture, shift, output.device);
    FINISH();
    output.download();
    int equal = 0;
    for (int y = 0; y < height; y++) {
        for (int x = 0; x < width; x++) {
            float expected = bilinear_on_host(image, x + 0.5f + shift, y + 0.5f + shift, cudaAddressModeBorder);
            equal += close(output[y * width + x], expected);
        }
    }
    std::printf("image with border, shift %g: %d of %d texels as the formula says; first %.4f, last %.4f\n", shift,
                equal, width * height, output[0], output[width * height - 1]);
}

void two_dimensions()
{
    static float image[width * height];
    Random random;
    for (float& value : image) {
        value = static_cast<float>(random.below(64));
    }

    float* pitched = nullptr;
    size_t pitch = 0;
    size_t row_bytes = width * sizeof(float);
    CUDA(cudaMallocPitch(&pitched, &pitch, row_bytes, height));
    CUDA(cudaMemcpy2D(pitched, pitch, image, row_bytes, row_bytes, height, cudaMemcpyHostToDevice));
    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypePitch2D;
    resource.res.pitch2D.devPtr = pitched;
    resource.res.pitch2D.desc = cudaCreateChannelDesc<float>();
    resource.res.pitch2D.width = width;
    resource.res.pitch2D.height = height;
    resource.res.pitch2D.pitchInBytes = pitch;
    cudaTextureObject_t texture = make_texture(resource, cudaFilterModePoint);
    require_image(texture, image, 0.25f, false);
    CUDA(cudaDestroyTextureObject(texture));
    texture = make_texture(resource, cudaFilterModeLinear);
    require_image(texture, image, 0.25f, true);
    CUDA(cudaDestroyTextureObject(texture));
    CUDA(cudaFree(pitched));
    std::printf("pitched memory: right\n");

    cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
    cudaArray_t array;
    CUDA(cudaMallocArray(&array, &format, width, height, cudaArraySurfaceLoadStore));
    CUDA(cudaMemcpy2DToArray(array, 0, 0, image, row_bytes, row_bytes, height, cudaMemcpyHostToDevice));
    resource = {};
    resource.resType = cudaResourceTypeArray;
    resource.res.array.array = array;
    texture = make_texture(resource, cudaFilterModeLinear);
    require_image(texture, image, -0.25f, true);
    CUDA(cudaDestroyTextureObject(texture));
    texture = make_texture(resource, cudaAddressModeBorder, cudaAddressModeBorder, cudaFilterModeLinear, false);
    print_image_with_border(texture, image, -0.25f);
    print_image_with_border(texture, image, 3.375f);
    CUDA(cudaDestroyTextureObject(texture));
    std::printf("array: right\n");

    cudaSurfaceObject_t surface = 0;
    CUDA(cudaCreateSurfaceObject(&surface, &resource));
    write_surface<<<dim3(blocks_for(width, 24), blocks_for(height, 5)), dim3(24, 5)>>>(surface);
    FINISH();
    CUDA(cudaDestroySurfaceObject(surface));
    static float read_back[width * height];
    CUDA(cudaMemcpy2DFromArray(read_back, row_bytes, array, 0, 0, row_bytes, height, cudaMemcpyDeviceToHost));
    for (int i = 0; i < width * height; i++) {
        CHECK(read_back[i] == image[i] + 1000.0f);
    }
    CUDA(cudaFreeArray(array));
    std::printf("surface: right\n");
}

void colours()
{
    constexpr int count = 32;
    uchar4 pixels[count];
    for (int i = 0; i < count; i++) {
        pixels[i] = make_uchar4(i, 2 * i, 255 - i, 255);
    }
    cudaChannelFormatDesc format = cudaCreateChannelDesc<uchar4>();
    cudaArray_t array;
    CUDA(cudaMallocArray(&array, &format, count, 1));
    CUDA(cudaMemcpy2DToArray(array, 0, 0, pixels, sizeof pixels, sizeof pixels, 1, cudaMemcpyHostToDevice));
    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypeArray;
    resource.res.array.array = array;
    cudaTextureDesc description = {};
    description.readMode = cudaReadModeNormalizedFloat;
    description.filterMode = cudaFilterModePoint;
    description.addressMode[0] = description.addressMode[1] = cudaAddressModeClamp;
    cudaTextureObject_t texture = 0;
    CUDA(cudaCreateTextureObject(&texture, &resource, &description, nullptr));
    Array<float4> output(count);
    sample_colours<<<1, count>>>(texture, output.device);
    FINISH();
    output.download();
    for (int i = 0; i < count; i++) {
        CHECK(close(output[i].x, i / 255.0f, 1e-6f) && close(output[i].y, 2 * i / 255.0f, 1e-6f));
        CHECK(close(output[i].z, (255 - i) / 255.0f, 1e-6f) && output[i].w == 1.0f);
    }
    CUDA(cudaDestroyTextureObject(texture));
    CUDA(cudaFreeArray(array));
    std::printf("colours: right\n");
}

int main()
{
    linear_memory();
    one_dimension();
    two_dimensions();
    colours();
    return pass("textures");
}
