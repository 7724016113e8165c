// Graphs: captured from streams, made node by node, launched many times, with parameters changed in between.
#include "check.h"

constexpr int count = 3001;
constexpr int threads = 128;

__global__ void add(int* data, int amount)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) {
        data[i] += amount + broken;
    }
}

__global__ void combine(int* output, const int* a, const int* b)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) {
        output[i] = a[i] * 1000 + b[i];
    }
}

void CUDART_CB count_call(void* counter)
{
    ++*static_cast<int*>(counter);
}

// Two streams forked and joined by events during capture.
void captured()
{
    Array<int> a(count), b(count), output(count);
    int* result = nullptr;
    CUDA(cudaMallocHost(&result, output.bytes()));
    int calls = 0;
    cudaStream_t first, second;
    cudaEvent_t forked, joined;
    CUDA(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking));
    CUDA(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
    CUDA(cudaEventCreateWithFlags(&forked, cudaEventDisableTiming));
    CUDA(cudaEventCreateWithFlags(&joined, cudaEventDisableTiming));
    int blocks = blocks_for(count, threads);

    CUDA(cudaStreamBeginCapture(first, cudaStreamCaptureModeGlobal));
    CUDA(cudaEventRecord(forked, first));
    CUDA(cudaStreamWaitEvent(second, forked, 0));
    add<<<blocks, threads, 0, first>>>(a.device, 1);
    add<<<blocks, threads, 0, second>>>(b.device, 2);
    CUDA(cudaEventRecord(joined, second));
    CUDA(cudaStreamWaitEvent(first, joined, 0));
    combine<<<blocks, threads, 0, first>>>(output.device, a.device, b.device);
    CUDA(cudaMemcpyAsync(result, output.device, output.bytes(), cudaMemcpyDeviceToHost, first));
    CUDA(cudaLaunchHostFunc(first, count_call, &calls));
    cudaStreamCaptureStatus status;
    CUDA(cudaStreamIsCapturing(first, &status));
    CHECK(status == cudaStreamCaptureStatusActive);
    cudaGraph_t graph;
    CUDA(cudaStreamEndCapture(first, &graph));

    size_t nodes = 0;
    CUDA(cudaGraphGetNodes(graph, nullptr, &nodes));
    std::printf("captured nodes: %zu\n", nodes);
    // Nothing has run so far.
    a.download();
    CHECK(a[0] == 0 && calls == 0);

    cudaGraphExec_t executable;
    CUDA(cudaGraphInstantiate(&executable, graph, 0));
    constexpr int launches = 5;
    for (int launch = 0; launch < launches; launch++) {
        CUDA(cudaGraphLaunch(executable, first));
    }
    CUDA(cudaStreamSynchronize(first));
    for (int i = 0; i < count; i++) {
        CHECK(result[i] == launches * 1000 + 2 * launches);
    }
    CHECK(calls == launches);
    CUDA(cudaGraphExecDestroy(executable));
    CUDA(cudaGraphDestroy(graph));
    CUDA(cudaStreamDestroy(first));
    CUDA(cudaStreamDestroy(second));
    CUDA(cudaEventDestroy(forked));
    CUDA(cudaEventDestroy(joined));
    CUDA(cudaFreeHost(result));
    std::printf("capture: right\n");
}

// memset and memcpy feed a kernel; later its parameters change in the executable graph.
void explicit_nodes()
{
    Array<int> a(count), b(count), output(count);
    for (int i = 0; i < count; i++) {
        a[i] = i;
    }
    a.upload();
    cudaGraph_t graph;
    CUDA(cudaGraphCreate(&graph, 0));

    cudaMemsetParams set = {};
    set.dst = a.device;
    set.elementSize = 4;
    set.value = 7;
    set.width = 1000;
    set.height = 1;
    cudaGraphNode_t set_node;
    CUDA(cudaGraphAddMemsetNode(&set_node, graph, nullptr, 0, &set));

    cudaGraphNode_t copy_node;
    CUDA(cudaGraphAddMemcpyNode1D(&copy_node, graph, &set_node, 1, b.device, a.device, a.bytes(),
                                  cudaMemcpyDeviceToDevice));

    int amount = 3;
    void* arguments[] = {&b.device, &amount};
    cudaKernelNodeParams kernel = {};
    kernel.func = reinterpret_cast<void*>(add);
    kernel.gridDim = dim3(blocks_for(count, threads));
    kernel.blockDim = dim3(threads);
    kernel.kernelParams = arguments;
    cudaGraphNode_t kernel_node;
    CUDA(cudaGraphAddKernelNode(&kernel_node, graph, &copy_node, 1, &kernel));

    cudaGraphNode_t read_node;
    CUDA(cudaGraphAddMemcpyNode1D(&read_node, graph, &kernel_node, 1, output.host, b.device, b.bytes(),
                                  cudaMemcpyDeviceToHost));
    cudaGraphNode_t empty_node;
    CUDA(cudaGraphAddEmptyNode(&empty_node, graph, &read_node, 1));
    cudaGraphNodeType type;
    CUDA(cudaGraphNodeGetType(set_node, &type));
    CHECK(type == cudaGraphNodeTypeMemset);

    // The parameters were copied when the node was made.
    amount = 1000000;
    cudaGraphExec_t executable;
    CUDA(cudaGraphInstantiate(&executable, graph, 0));
    CUDA(cudaGraphLaunch(executable, 0));
    CUDA(cudaDeviceSynchronize());
    for (int i = 0; i < count; i++) {
        CHECK(output[i] == (i < 1000 ? 7 : i) + 3);
    }

    amount = 50;
    CUDA(cudaGraphExecKernelNodeSetParams(executable, kernel_node, &kernel));
    CUDA(cudaGraphLaunch(executable, 0));
    CUDA(cudaDeviceSynchronize());
    for (int i = 0; i < count; i++) {
        CHECK(output[i] == (i < 1000 ? 7 : i) + 50);
    }

    cudaGraph_t clone;
    CUDA(cudaGraphClone(&clone, graph));
    size_t nodes = 0;
    CUDA(cudaGraphGetNodes(clone, nullptr, &nodes));
    size_t roots = 0;
    CUDA(cudaGraphGetRootNodes(clone, nullptr, &roots));
    std::printf("explicit nodes: %zu, roots: %zu\n", nodes, roots);
    CUDA(cudaGraphDestroy(clone));
    CUDA(cudaGraphExecDestroy(executable));
    CUDA(cudaGraphDestroy(graph));
    std::printf("explicit graph: right\n");
}

int main()
{
    captured();
    explicit_nodes();
    return pass("graph_capture");
}
