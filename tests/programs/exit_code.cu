// A program whose exit code is not 0 although all went well; whoever runs it has to pass the code on.
#include "check.h"

__global__ void square(int* data)
{
    data[threadIdx.x] = threadIdx.x * threadIdx.x + broken;
}

int main()
{
    Array<int> data(7);
    square<<<1, 7>>>(data.device);
    FINISH();
    data.download();
    CHECK(data[6] == 36);
    pass("exit_code");
    return data[6] + 1;
}
