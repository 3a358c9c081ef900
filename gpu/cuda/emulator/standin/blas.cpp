// A stand-in for cuBLASLt: the entry points that blas.go calls, computed plainly, column by
// column as the library does. It refuses what blas.go should never ask for.
#include "engine.h"

#include <cstdint>
#include <cstring>
#include <vector>

namespace lt {

enum { success = 0, not_initialized = 1, invalid_value = 7, not_supported = 15 };
enum { compute_f32 = 68, real_f32 = 0, real_bf16 = 14 };

struct Desc { int32_t compute, scale, trans[2]; };
struct Layout { int32_t type; uint64_t rows, cols; int64_t ld; };
struct Preference { uint64_t workspace; uint32_t reduction, alignment[4]; };
struct Result { uint64_t algorithm[8]; size_t workspace; int32_t state; float waves; int32_t reserved[4]; };

const uint64_t chosen = 0x656d756c61746564; // what an algorithm of ours begins with

inline float element(const void *p, int32_t type, uint64_t i) {
    if (type == real_f32) return ((const float *)p)[i];
    uint32_t bits = (uint32_t)((const uint16_t *)p)[i] << 16;
    float x;
    memcpy(&x, &bits, 4);
    return x;
}

// rounded is the bfloat16 nearest to x, ties to even.
inline uint16_t rounded(float x) {
    uint32_t bits;
    memcpy(&bits, &x, 4);
    if (x != x) return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

uint64_t dropped; // of each sum, the last so many products are left out

struct Product {
    Desc desc;
    Layout a, b, d;
    const void *A, *B;
    void *D;
    float beta;
    void run() const {
        uint64_t k = desc.trans[0] ? a.rows : a.cols;
        for (uint64_t j = 0; j < d.cols; j++)
            for (uint64_t i = 0; i < d.rows; i++) {
                double sum = 0;
                for (uint64_t l = 0; l + dropped < k; l++)
                    sum += (double)element(A, a.type, desc.trans[0] ? l + i * a.ld : i + l * a.ld) *
                           (double)element(B, b.type, desc.trans[1] ? j + l * b.ld : l + j * b.ld);
                uint64_t at = i + j * d.ld;
                float y = (float)sum + (beta == 0 ? 0.0f : beta * element(D, d.type, at));
                if (d.type == real_f32) ((float *)D)[at] = y;
                else ((uint16_t *)D)[at] = rounded(y);
            }
    }
};

inline bool fits(const Desc &desc, const Layout &a, const Layout &b, const Layout &d) {
    uint64_t m = desc.trans[0] ? a.cols : a.rows, k = desc.trans[0] ? a.rows : a.cols;
    uint64_t n = desc.trans[1] ? b.rows : b.cols, k2 = desc.trans[1] ? b.cols : b.rows;
    return k == k2 && m == d.rows && n == d.cols && a.type == b.type && (d.type == real_f32 || a.type == real_bf16);
}

} // namespace lt

extern "C" {

// emulator_drop plants a fault: of each sum, the last so many products are left out.
void emulator_drop(int products) { lt::dropped = (uint64_t)products; }

int cublasLtCreate(void **handle) {
    *handle = new int(1);
    return lt::success;
}

int cublasLtDestroy(void *handle) {
    delete (int *)handle;
    return lt::success;
}

const char *cublasLtGetStatusName(int status) {
    switch (status) {
    case lt::success: return "CUBLAS_STATUS_SUCCESS";
    case lt::not_initialized: return "CUBLAS_STATUS_NOT_INITIALIZED";
    case lt::invalid_value: return "CUBLAS_STATUS_INVALID_VALUE";
    case lt::not_supported: return "CUBLAS_STATUS_NOT_SUPPORTED";
    }
    return "CUBLAS_STATUS_UNKNOWN";
}

int cublasLtMatmulDescCreate(lt::Desc **desc, int compute, int scale) {
    if (compute != lt::compute_f32 || scale != lt::real_f32) return lt::not_supported;
    *desc = new lt::Desc{compute, scale, {0, 0}};
    return lt::success;
}

int cublasLtMatmulDescSetAttribute(lt::Desc *desc, int attribute, const void *value, size_t size) {
    if (size != 4 || attribute < 3 || attribute > 4) return lt::invalid_value;
    memcpy(&desc->trans[attribute - 3], value, 4);
    return lt::success;
}

int cublasLtMatmulDescDestroy(lt::Desc *desc) {
    delete desc;
    return lt::success;
}

int cublasLtMatrixLayoutCreate(lt::Layout **layout, int type, uint64_t rows, uint64_t cols, int64_t ld) {
    if (type != lt::real_f32 && type != lt::real_bf16) return lt::not_supported;
    if (ld < (int64_t)rows) return lt::invalid_value;
    *layout = new lt::Layout{type, rows, cols, ld};
    return lt::success;
}

int cublasLtMatrixLayoutDestroy(lt::Layout *layout) {
    delete layout;
    return lt::success;
}

int cublasLtMatmulPreferenceCreate(lt::Preference **preference) {
    *preference = new lt::Preference{0, 7, {256, 256, 256, 256}}; // the library's own defaults
    return lt::success;
}

int cublasLtMatmulPreferenceSetAttribute(lt::Preference *p, int attribute, const void *value, size_t size) {
    if (attribute == 1 && size == 8) memcpy(&p->workspace, value, 8);
    else if (attribute == 3 && size == 4) memcpy(&p->reduction, value, 4);
    else if (attribute >= 5 && attribute <= 8 && size == 4) memcpy(&p->alignment[attribute - 5], value, 4);
    else return lt::invalid_value;
    return lt::success;
}

int cublasLtMatmulPreferenceDestroy(lt::Preference *preference) {
    delete preference;
    return lt::success;
}

int cublasLtMatmulAlgoGetHeuristic(void *handle, lt::Desc *desc, lt::Layout *a, lt::Layout *b, lt::Layout *c, lt::Layout *d,
                                   lt::Preference *p, int wanted, lt::Result *results, int *found) {
    if (!handle) return lt::not_initialized;
    if (!lt::fits(*desc, *a, *b, *d) || memcmp(c, d, sizeof *c) || wanted < 1 || p->reduction != 0) return lt::invalid_value;
    memset(results, 0, sizeof *results);
    results->algorithm[0] = lt::chosen;
    results->algorithm[1] = p->alignment[0];
    *found = 1;
    return lt::success;
}

int cublasLtMatmul(void *handle, lt::Desc *desc, const float *alpha, const void *A, lt::Layout *a, const void *B, lt::Layout *b,
                   const float *beta, const void *C, lt::Layout *c, void *D, lt::Layout *d, const uint64_t *algorithm,
                   void *workspace, size_t bytes, void *stream) {
    (void)c, (void)workspace, (void)bytes;
    if (!handle) return lt::not_initialized;
    if (!lt::fits(*desc, *a, *b, *d) || *alpha != 1 || C != D || algorithm[0] != lt::chosen) return lt::invalid_value;
    if (((uintptr_t)A | (uintptr_t)B | (uintptr_t)D) % algorithm[1]) return lt::invalid_value;
    lt::Product p{*desc, *a, *b, *d, A, B, D, *beta};
    return emulator_enqueue(stream, [p] { p.run(); }) ? lt::invalid_value : lt::success;
}
}
