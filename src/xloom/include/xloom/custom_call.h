/* What a C or C++ file includes to be called from an HLO program by xloom. Header-only: there is nothing to link.

   The functions' names and meaning are those of XLA's custom_call_status.h, so that the same source builds for both.

     original                   void f(void* out, const void** in);
     status-returning           void f(void* out, const void** in, XlaCustomCallStatus* status);
     status-returning-unified   void f(void* out, const void** in, const char* opaque, size_t opaque_len,
                                       XlaCustomCallStatus* status);

   An array is a pointer to its elements; a tuple is a pointer to an array of such pointers, nested as the tuple is.
   XLA:CPU flattens tuples instead: its `in` has every leaf of every operand, its `out` every leaf of the result. The two
   agree on operands that are arrays and results that are arrays or tuples of them; keep to those, and the same
   function serves both.

   On accelerators (any platform but "Host") the versions are

     original                   void f(void* stream, void** buffers, const char* opaque, size_t opaque_len);
     status-returning (both)    void f(void* stream, void** buffers, const char* opaque, size_t opaque_len,
                                       XlaCustomCallStatus* status);

   and `buffers` has the device address of every array of the operands, then of the result: leaves in pre-order. */
#ifndef XLOOM_CUSTOM_CALL_H_
#define XLOOM_CUSTOM_CALL_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct XlaCustomCallStatus_ XlaCustomCallStatus;

struct XlaCustomCallStatus_ {
  void (*set_success)(XlaCustomCallStatus* status);
  void (*set_failure)(XlaCustomCallStatus* status, const char* message, size_t message_len);
};

/* Marks the call as a success; the last status set wins, and one that is never set is a success. */
static inline void XlaCustomCallStatusSetSuccess(XlaCustomCallStatus* status) { status->set_success(status); }

/* Marks the call as a failure: the computation stops, and the message, copied up to its length or a NUL, is reported. */
static inline void XlaCustomCallStatusSetFailure(XlaCustomCallStatus* status, const char* message,
                                                 size_t message_len) {
  status->set_failure(status, message, message_len);
}

/* A function that a shared library offers, by name and platform; the ABI is empty where its type does not say it. */
typedef struct {
  const char* name;
  const char* platform;
  void* function;
  const char* abi;
} xloom_custom_call_registration;

/* The ABI on "Host" of functions whose parameters are spelled as above, or with pointers to elements in the place of
   `void` (in C, which cannot say "any", to those of one standard type). */
#ifdef __cplusplus
extern "C++" {
template <typename Function>
constexpr const char* xloom_abi(Function) { return ""; }
template <typename Out, typename In>
constexpr const char* xloom_abi(void (*)(Out*, In**)) { return "original"; }
template <typename Out, typename In>
constexpr const char* xloom_abi(void (*)(Out*, In**, XlaCustomCallStatus*)) { return "status-returning"; }
template <typename Out, typename In>
constexpr const char* xloom_abi(void (*)(Out*, In**, const char*, size_t, XlaCustomCallStatus*)) {
  return "status-returning-unified";
}
}
#define XLOOM_ABI_(function) xloom_abi(function)
#else
#define XLOOM_ABIS_(out, in)                                                                             \
  void (*)(out*, in**) : "original", void (*)(out*, in**, XlaCustomCallStatus*) : "status-returning",     \
      void (*)(out*, in**, const char*, size_t, XlaCustomCallStatus*) : "status-returning-unified"
#define XLOOM_ABIS_OF_(type)                                                                                    \
  XLOOM_ABIS_(type, type), XLOOM_ABIS_(type, const type), XLOOM_ABIS_(type, void), XLOOM_ABIS_(type, const void), \
      XLOOM_ABIS_(void, type), XLOOM_ABIS_(void, const type)
#define XLOOM_ABI_(function)                                                                                   \
  _Generic((function), XLOOM_ABIS_(void, void), XLOOM_ABIS_(void, const void), XLOOM_ABIS_OF_(float),          \
           XLOOM_ABIS_OF_(double), XLOOM_ABIS_OF_(_Bool), XLOOM_ABIS_OF_(char), XLOOM_ABIS_OF_(signed char),   \
           XLOOM_ABIS_OF_(unsigned char), XLOOM_ABIS_OF_(short), XLOOM_ABIS_OF_(unsigned short),               \
           XLOOM_ABIS_OF_(int), XLOOM_ABIS_OF_(unsigned), XLOOM_ABIS_OF_(long), XLOOM_ABIS_OF_(unsigned long), \
           XLOOM_ABIS_OF_(long long), XLOOM_ABIS_OF_(unsigned long long), default : "")
#endif

#define XLOOM_CONCAT_(a, b) a##b
#define XLOOM_CONCAT(a, b) XLOOM_CONCAT_(a, b)
/* The section holds pointers: compilers may align structs beyond their size, and leave gaps in an array of them. */
#define XLOOM_REGISTER_(target, address, platform, row)                                                         \
  static const xloom_custom_call_registration row = {target, platform, (void*)(address), XLOOM_ABI_(address)};  \
  __attribute__((section("xloom_custom_calls"), used)) static const xloom_custom_call_registration* XLOOM_CONCAT( \
      row, _pointer) = &row

/* Offers `function` under its own name, or `address` under `target`, to whoever loads the library. */
#define XLA_REGISTER_CUSTOM_CALL_TARGET_WITH_SYM(target, address, platform) \
  XLOOM_REGISTER_(target, address, platform, XLOOM_CONCAT(xloom_registration_, __COUNTER__))
#define XLA_REGISTER_CUSTOM_CALL_TARGET(function, platform) \
  XLA_REGISTER_CUSTOM_CALL_TARGET_WITH_SYM(#function, function, platform)
#define XLA_CPU_REGISTER_CUSTOM_CALL_TARGET_WITH_SYM(target, address) \
  XLA_REGISTER_CUSTOM_CALL_TARGET_WITH_SYM(target, address, "Host")
#define XLA_CPU_REGISTER_CUSTOM_CALL_TARGET(function) XLA_REGISTER_CUSTOM_CALL_TARGET(function, "Host")

/* The linker's bounds of that section; absent when nothing is registered. */
extern const xloom_custom_call_registration* __start_xloom_custom_calls[]
    __attribute__((weak, visibility("hidden")));
extern const xloom_custom_call_registration* __stop_xloom_custom_calls[] __attribute__((weak, visibility("hidden")));

__attribute__((weak, visibility("default"))) size_t xloom_custom_calls_by_abi(
    const xloom_custom_call_registration*** first) {
  *first = __start_xloom_custom_calls;
  return (size_t)(__stop_xloom_custom_calls - __start_xloom_custom_calls);
}

#ifdef __cplusplus
}
#endif
#endif /* XLOOM_CUSTOM_CALL_H_ */
