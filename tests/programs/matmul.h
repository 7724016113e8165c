// Input and reference of both matrix products. The values are small integers, so that every sum is exact.
#pragma once

#include "check.h"

constexpr int rows = 150;
constexpr int inner = 130;
constexpr int columns = 170;

struct Product {
    Array<float> a{rows * inner};
    Array<float> b{inner * columns};
    Array<float> c{rows * columns};
    Array<float> expected{rows * columns};

    Product()
    {
        Random random;
        for (size_t i = 0; i < a.count; i++) {
            a[i] = static_cast<float>(random.below(17) - 8);
        }
        for (size_t i = 0; i < b.count; i++) {
            b[i] = static_cast<float>(random.below(17) - 8);
        }
        for (int row = 0; row < rows; row++) {
            for (int k = 0; k < inner; k++) {
                for (int column = 0; column < columns; column++) {
                    expected[row * columns + column] += a[row * inner + k] * b[k * columns + column];
                }
            }
        }
        a.upload();
        b.upload();
    }

    void verify()
    {
        c.download();
        COMPARE(c.host, expected.host, c.count);
        print_checksum("product", c.host, c.count);
    }
};
