// Objects with virtual functions, made on the device and used through pointers to their base.
#include <new>

#include "check.h"

class Shape {
  public:
    __device__ explicit Shape(int size) : size_(size) {}
    __device__ virtual ~Shape() {}
    __device__ virtual int area() const = 0;
    __device__ virtual int corners() const { return 0; }

  protected:
    int size_;
};

class Square : public Shape {
  public:
    __device__ explicit Square(int size) : Shape(size) {}
    __device__ int area() const override { return size_ * size_; }
    __device__ int corners() const override { return 4 + broken; }
};

class Box : public Square {
  public:
    __device__ Box(int size, int depth) : Square(size), depth_(depth) {}
    __device__ int area() const override { return 2 * Square::area() + 4 * size_ * depth_; }

  private:
    int depth_;
};

class Disc : public Shape {
  public:
    __device__ explicit Disc(int size) : Shape(size) {}
    __device__ ~Disc() override { atomicAdd(&destroyed(), 1); }
    __device__ int area() const override { return 3 * size_ * size_; }

    __device__ static int& destroyed()
    {
        static __device__ int count = 0;
        return count;
    }
};

constexpr size_t slot_bytes = 64;
static_assert(sizeof(Box) <= slot_bytes, "every shape fits a slot");

__global__ void make(unsigned char* slots, Shape** shapes, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) {
        return;
    }
    void* slot = slots + slot_bytes * i;
    switch (i % 3) {
    case 0: shapes[i] = new (slot) Square(i); break;
    case 1: shapes[i] = new (slot) Box(i, 2); break;
    default: shapes[i] = new (slot) Disc(i); break;
    }
}

__global__ void measure(Shape* const* shapes, int* results, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) {
        results[i] = shapes[i]->area() * 10 + shapes[i]->corners();
    }
}

__global__ void destroy(Shape** shapes, int count, int* destroyed)
{
    for (int i = threadIdx.x; i < count; i += blockDim.x) {
        shapes[i]->~Shape();
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        *destroyed = Disc::destroyed();
    }
}

int main()
{
    constexpr int count = 301;
    Array<unsigned char> slots(slot_bytes * count);
    Array<Shape*> shapes(count);
    Array<int> results(count), expected(count), destroyed(1);
    for (int i = 0; i < count; i++) {
        int area = i % 3 == 0 ? i * i : i % 3 == 1 ? 2 * i * i + 8 * i : 3 * i * i;
        expected[i] = area * 10 + (i % 3 == 2 ? 0 : 4);
    }
    make<<<blocks_for(count, 64), 64>>>(slots.device, shapes.device, count);
    measure<<<blocks_for(count, 128), 128>>>(shapes.device, results.device, count);
    destroy<<<1, 32>>>(shapes.device, count, destroyed.device);
    FINISH();
    results.download();
    destroyed.download();
    COMPARE(results.host, expected.host, count);
    CHECK(destroyed[0] == count / 3);
    print_checksum("shapes", results.host, count);
    return pass("virtual_functions");
}
