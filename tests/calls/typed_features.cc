// What the headers of the typed interface offer beyond single arguments, results and attributes.
#include <atomic>
#include <complex>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;
using Out = ffi::ResultBufferR1<ffi::S64>;

// -- all attributes at once
static ffi::Error Whole(Out out, ffi::Dictionary attributes) {
  out->typed_data()[0] = attributes.size();
  out->typed_data()[1] = attributes.contains("first") + 10 * attributes.contains("no such");
  ffi::ErrorOr<int64_t> last = attributes.get<int64_t>("last");
  if (!last) return last.error();
  out->typed_data()[2] = *last;
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(whole, Whole, ffi::Ffi::Bind().Ret<ffi::BufferR1<ffi::S64>>().Attrs());

struct Range {
  int64_t first;
  int64_t last;
};
XLA_FFI_REGISTER_STRUCT_ATTR_DECODING(Range, ::xla::ffi::StructMember<int64_t>("first"),
                                      ::xla::ffi::StructMember<int64_t>("last"));
static ffi::Error Struct(Out out, Range range) {
  out->typed_data()[0] = range.first;
  out->typed_data()[1] = range.last;
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(whole_struct, Struct, ffi::Ffi::Bind().Ret<ffi::BufferR1<ffi::S64>>().Attrs<Range>());

// -- a binding that is inferred, and traits
static ffi::Error Inferred(ffi::BufferR1<ffi::F32> x, ffi::ResultBufferR1<ffi::F32> y) {
  for (size_t i = 0; i < x.element_count(); ++i) y->typed_data()[i] = 3 * x.typed_data()[i];
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER(inferred_handler, Inferred);
extern "C" XLA_FFI_Error* inferred(XLA_FFI_CallFrame* frame) { return inferred_handler(frame); }
XLA_FFI_DEFINE_HANDLER_SYMBOL(with_traits, Inferred,
                              ffi::Ffi::Bind().Arg<ffi::BufferR1<ffi::F32>>().Ret<ffi::BufferR1<ffi::F32>>(),
                              {ffi::Traits::kCmdBufferCompatible});

// -- the context as a whole
static ffi::Error Surroundings(ffi::Context context, Out out) {
  ffi::ErrorOr<ffi::RunId> run = context.get<ffi::RunId>();
  if (!run) return run.error();
  ffi::ErrorOr<int32_t> device = context.get<ffi::DeviceOrdinal>();
  if (!device) return device.error();
  ffi::ErrorOr<ffi::ThreadPool> pool = context.get<ffi::ThreadPool>();
  if (!pool) return pool.error();
  ffi::ErrorOr<void*> stream = context.get<ffi::PlatformStream<void*>>();
  out->typed_data()[0] = run->run_id > 0;
  out->typed_data()[1] = *device;
  out->typed_data()[2] = pool->num_threads() > 0;
  out->typed_data()[3] = bool(stream);
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(context, Surroundings, ffi::Ffi::Bind().Ctx().Ret<ffi::BufferR1<ffi::S64>>());

// -- several tasks of the pool end one future, or fail it
static ffi::Future Parts(ffi::ThreadPool pool, ffi::BufferR1<ffi::F32> x, ffi::ResultBufferR1<ffi::F32> y, int64_t wrong) {
  ffi::CountDownPromise promise(x.element_count());
  ffi::Future future(promise);
  for (size_t i = 0; i < x.element_count(); ++i) {
    pool.Schedule([promise, x, y, i, wrong]() mutable {
      y->typed_data()[i] = -x.typed_data()[i];
      if (int64_t(i) == wrong)
        promise.CountDown(ffi::Error(ffi::ErrorCode::kDataLoss, "part " + std::to_string(i)));
      else
        promise.CountDown();
    });
  }
  return future;
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(parts, Parts,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Arg<ffi::BufferR1<ffi::F32>>()
                                  .Ret<ffi::BufferR1<ffi::F32>>()
                                  .Attr<int64_t>("wrong"));

// -- arguments beyond those that are bound, each asked for by type
static ffi::Error Ask(ffi::AnyBuffer first, ffi::RemainingArgs args, Out out, ffi::RemainingRets rets) {
  out->typed_data()[0] = first.size_bytes();
  out->typed_data()[1] = args.size() + 10 * rets.size();
  ffi::ErrorOr<ffi::BufferR1<ffi::C64>> typed = args.get<ffi::BufferR1<ffi::C64>>(0);
  out->typed_data()[2] = typed ? int64_t(typed->typed_data()[1].imag()) : -1;
  out->typed_data()[3] = args.get<ffi::AnyBuffer>(99).has_value();
  ffi::ErrorOr<ffi::Result<ffi::BufferR1<ffi::PRED>>> flags = rets.get<ffi::BufferR1<ffi::PRED>>(0);
  if (!flags) return flags.error();
  (*flags)->typed_data()[0] = true;
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(ask, Ask,
                              ffi::Ffi::Bind()
                                  .Arg<ffi::AnyBuffer>()
                                  .RemainingArgs()
                                  .Ret<ffi::BufferR1<ffi::S64>>()
                                  .RemainingRets());

// -- every code of an error
static ffi::Error Coded(Out, int32_t code) {
  return ffi::Error(static_cast<XLA_FFI_Error_Code>(code), "of that code");
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(coded, Coded,
                              ffi::Ffi::Bind().Ret<ffi::BufferR1<ffi::S64>>().Attr<int32_t>("code"));

// -- prepare and initialize without a state
static std::atomic<int> prepared{0}, initialized{0};
static ffi::Error Prepare() { return ++prepared, ffi::Error::Success(); }
XLA_FFI_DEFINE_HANDLER_SYMBOL(only_prepare, Prepare, ffi::Ffi::BindPrepare());
static ffi::Error Initialize(int64_t fails) {
  ++initialized;
  return fails ? ffi::Error::Internal("not ready") : ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(only_initialize, Initialize, ffi::Ffi::BindInitialize().Attr<int64_t>("fails"));
static ffi::Error Counts(Out out, int64_t) {
  out->typed_data()[0] = prepared;
  out->typed_data()[1] = initialized;
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(counts, Counts,
                              ffi::Ffi::BindExecute().Ret<ffi::BufferR1<ffi::S64>>().Attr<int64_t>("fails"));
