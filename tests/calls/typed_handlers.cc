// Typed handlers for the tests, one for each thing that a handler can take or give.
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <sstream>
#include <string>
#include <thread>

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

// -- arrays
static ffi::Error Axpy(float a, ffi::BufferR1<ffi::F32> x, ffi::BufferR1<ffi::F32> y, ffi::ResultBufferR1<ffi::F32> z) {
  for (size_t i = 0; i < x.element_count(); ++i) z->typed_data()[i] = a * x.typed_data()[i] + y.typed_data()[i];
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    axpy, Axpy,
    ffi::Ffi::Bind()
        .Attr<float>("a")
        .Arg<ffi::BufferR1<ffi::F32>>()
        .Arg<ffi::BufferR1<ffi::F32>>()
        .Ret<ffi::BufferR1<ffi::F32>>());

// what each argument and result looks like, as text in the first result
static void Say(std::ostringstream& out, char kind, const ffi::AnyBuffer& b) {
  out << kind << int(b.element_type()) << "[";
  for (int64_t d : b.dimensions()) out << d << ",";
  out << "]" << (b.size_bytes() && reinterpret_cast<uintptr_t>(b.untyped_data()) % 64 ? "skewed " : " ");
}
static ffi::Error Write(const std::string& text, ffi::Result<ffi::AnyBuffer> to) {
  std::memset(to->untyped_data(), 0, to->size_bytes());
  std::memcpy(to->untyped_data(), text.data(), std::min(text.size(), to->size_bytes()));
  return ffi::Error::Success();
}
static ffi::Error Look(ffi::RemainingArgs args, ffi::Result<ffi::AnyBuffer> text, ffi::RemainingRets rets) {
  std::ostringstream out;
  for (size_t i = 0; i < args.size(); ++i) Say(out, 'a', *args.get<ffi::AnyBuffer>(i));
  Say(out, 'r', *text);
  for (size_t i = 0; i < rets.size(); ++i) Say(out, 'r', **rets.get<ffi::AnyBuffer>(i));
  return Write(out.str(), text);
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(look, Look, ffi::Ffi::Bind().RemainingArgs().Ret<ffi::AnyBuffer>().RemainingRets());

static ffi::Error Optional(ffi::BufferR1<ffi::F32> x, std::optional<ffi::BufferR1<ffi::F32>> y,
                           ffi::ResultBufferR1<ffi::F32> z, std::optional<ffi::ResultBufferR1<ffi::S32>> n) {
  for (size_t i = 0; i < x.element_count(); ++i)
    z->typed_data()[i] = x.typed_data()[i] + (y ? y->typed_data()[i] : 100.0f);
  if (n) (*n)->typed_data()[0] = 7;
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    optional, Optional,
    ffi::Ffi::Bind()
        .Arg<ffi::BufferR1<ffi::F32>>()
        .OptionalArg<ffi::BufferR1<ffi::F32>>()
        .Ret<ffi::BufferR1<ffi::F32>>()
        .OptionalRet<ffi::BufferR1<ffi::S32>>());

// -- attributes
enum class Mode : uint8_t { kSlow = 1, kFast = 2 };
XLA_FFI_REGISTER_ENUM_ATTR_DECODING(Mode);
struct Range {
  int64_t first;
  int64_t last;
};
XLA_FFI_REGISTER_STRUCT_ATTR_DECODING(Range, ::xla::ffi::StructMember<int64_t>("first"),
                                      ::xla::ffi::StructMember<int64_t>("last"));

static ffi::Error Scalars(ffi::Result<ffi::AnyBuffer> text, bool pred, int8_t s8, int16_t s16, int32_t s32, int64_t s64,
                          uint8_t u8, uint16_t u16, uint32_t u32, uint64_t u64, float f32, double f64, Mode mode) {
  std::ostringstream out;
  out << pred << " " << int(s8) << " " << s16 << " " << s32 << " " << s64 << " " << int(u8) << " " << u16 << " " << u32
      << " " << u64 << " " << f32 << " " << f64 << " " << int(mode);
  return Write(out.str(), text);
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(scalars, Scalars,
                              ffi::Ffi::Bind()
                                  .Ret<ffi::AnyBuffer>()
                                  .Attr<bool>("pred")
                                  .Attr<int8_t>("s8")
                                  .Attr<int16_t>("s16")
                                  .Attr<int32_t>("s32")
                                  .Attr<int64_t>("s64")
                                  .Attr<uint8_t>("u8")
                                  .Attr<uint16_t>("u16")
                                  .Attr<uint32_t>("u32")
                                  .Attr<uint64_t>("u64")
                                  .Attr<float>("f32")
                                  .Attr<double>("f64")
                                  .Attr<Mode>("mode"));

template <typename T>
static void List(std::ostringstream& out, ffi::Span<const T> list) {
  for (T x : list) out << +x << ",";
  out << ";";
}
static ffi::Error Others(ffi::Result<ffi::AnyBuffer> text, std::string_view name, ffi::Span<const int8_t> s8,
                         ffi::Span<const int32_t> s32, ffi::Span<const uint64_t> u64, ffi::Span<const float> f32,
                         ffi::Span<const double> f64, ffi::Dictionary options, Range range, int32_t* pointer) {
  std::ostringstream out;
  out << name << ";";
  List(out, s8);
  List(out, s32);
  List(out, u64);
  List(out, f32);
  List(out, f64);
  out << options.size() << *options.get<int64_t>("depth") << *options.get<std::string_view>("kind") << ";";
  out << *options.get<ffi::Dictionary>("inner")->get<double>("x") << ";" << range.first << ".." << range.last << ";"
      << *pointer;
  return Write(out.str(), text);
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(others, Others,
                              ffi::Ffi::Bind()
                                  .Ret<ffi::AnyBuffer>()
                                  .Attr<std::string_view>("name")
                                  .Attr<ffi::Span<const int8_t>>("s8")
                                  .Attr<ffi::Span<const int32_t>>("s32")
                                  .Attr<ffi::Span<const uint64_t>>("u64")
                                  .Attr<ffi::Span<const float>>("f32")
                                  .Attr<ffi::Span<const double>>("f64")
                                  .Attr<ffi::Dictionary>("options")
                                  .Attr<Range>("range")
                                  .Attr<ffi::Pointer<int32_t>>("pointer"));

// -- state by stage: what instantiate, prepare and initialize made, and how many were destroyed
template <int kNumber>
struct Counted {
  static ffi::TypeId id;
  explicit Counted(int64_t value) : value(value) {}
  ~Counted() { ++destroyed; }
  int64_t value;
  static int destroyed;
};
template <int kNumber>
ffi::TypeId Counted<kNumber>::id = {};
template <int kNumber>
int Counted<kNumber>::destroyed = 0;
using Built = Counted<0>;
using Ready = Counted<1>;
using Begun = Counted<2>;
using Given = Counted<3>;
static const ffi::TypeInfo infos[] = {ffi::MakeTypeInfo<Built>(), ffi::MakeTypeInfo<Ready>(),
                                      ffi::MakeTypeInfo<Begun>(), ffi::MakeTypeInfo<Given>()};
extern "C" ffi::TypeId* type_id(int k) {
  ffi::TypeId* ids[] = {&Built::id, &Ready::id, &Begun::id, &Given::id};
  return ids[k];
}
extern "C" const ffi::TypeInfo* type_info(int k) { return &infos[k]; }
extern "C" int destroyed(int k) {
  int counts[] = {Built::destroyed, Ready::destroyed, Begun::destroyed, Given::destroyed};
  return counts[k];
}

static ffi::ErrorOr<std::unique_ptr<Built>> Build(int64_t start) {
  if (start < 0) return ffi::Unexpected(ffi::Error::InvalidArgument("start is negative"));
  return std::make_unique<Built>(start);
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(build, Build, ffi::Ffi::BindInstantiate().Attr<int64_t>("start"));
static ffi::ErrorOr<std::unique_ptr<Ready>> Prepare(Built* built) { return std::make_unique<Ready>(built->value + 1); }
XLA_FFI_DEFINE_HANDLER_SYMBOL(prepare, Prepare, ffi::Ffi::BindPrepare().Ctx<ffi::State<Built>>());
static ffi::ErrorOr<std::unique_ptr<Begun>> Begin(Ready* ready) { return std::make_unique<Begun>(10 * ready->value); }
XLA_FFI_DEFINE_HANDLER_SYMBOL(begin, Begin, ffi::Ffi::BindInitialize().Ctx<ffi::Prepared<Ready>>());
static ffi::Error Count(Built* built, Begun* begun, ffi::ResultBufferR1<ffi::S64> out) {
  out->typed_data()[0] = built->value++;
  out->typed_data()[1] = begun->value++;
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(count, Count,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::State<Built>>()
                                  .Ctx<ffi::Initialized<Begun>>()
                                  .Ret<ffi::BufferR1<ffi::S64>>());

// -- context
static ffi::Error Surroundings(ffi::RunId run, int32_t device, ffi::ThreadPool pool, ffi::ScratchAllocator scratch,
                               ffi::ResultBufferR1<ffi::S64> out) {
  int64_t* to = out->typed_data();
  to[0] = run.run_id;
  to[1] = device;
  to[2] = pool.num_threads();
  std::optional<void*> memory = scratch.Allocate(1000, 256);
  to[3] = memory && reinterpret_cast<uintptr_t>(*memory) % 256 == 0;
  std::memset(*memory, 1, 1000);
  std::atomic<int> done{0};
  for (int k = 0; k < 8; ++k) pool.Schedule([&] { ++done; });
  while (done < 8) std::this_thread::yield();
  to[4] = done;
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(surroundings, Surroundings,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::RunId>()
                                  .Ctx<ffi::DeviceOrdinal>()
                                  .Ctx<ffi::ThreadPool>()
                                  .Ctx<ffi::ScratchAllocator>()
                                  .Ret<ffi::BufferR1<ffi::S64>>());
static ffi::Error UserValue(Given* given, ffi::ResultBufferR1<ffi::S64> out) {
  out->typed_data()[0] = given->value;
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(user_value, UserValue,
                              ffi::Ffi::Bind().Ctx<ffi::UserData<Given>>().Ret<ffi::BufferR1<ffi::S64>>());
extern "C" void* new_given(int64_t value) { return new Given(value); }
static ffi::Error Stream(void* stream, ffi::ResultBufferR1<ffi::U64> out) {
  out->typed_data()[0] = reinterpret_cast<uint64_t>(stream);
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(stream, Stream,
                              ffi::Ffi::Bind().Ctx<ffi::PlatformStream<void*>>().Ret<ffi::BufferR1<ffi::U64>>());

// -- futures
static ffi::Future Later(ffi::BufferR1<ffi::F32> x, ffi::ResultBufferR1<ffi::F32> y) {
  ffi::Promise promise;
  ffi::Future future(promise);
  std::thread([promise, x, y]() mutable {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    for (size_t i = 0; i < x.element_count(); ++i) y->typed_data()[i] = 2 * x.typed_data()[i];
    if (x.typed_data()[0] < 0)
      promise.SetError(ffi::Error(XLA_FFI_Error_Code_ABORTED, "too late"));
    else
      promise.SetAvailable();
  }).detach();
  return future;
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(later, Later,
                              ffi::Ffi::Bind().Arg<ffi::BufferR1<ffi::F32>>().Ret<ffi::BufferR1<ffi::F32>>());

// -- failure
static ffi::Error Below(ffi::BufferR1<ffi::F32> x, ffi::ResultBufferR1<ffi::F32> y) {
  if (x.typed_data()[0] >= 3) return ffi::Error(ffi::ErrorCode::kOutOfRange, "three is too much");
  for (size_t i = 0; i < x.element_count(); ++i) y->typed_data()[i] = x.typed_data()[i] + 1;
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(below, Below,
                              ffi::Ffi::Bind().Arg<ffi::BufferR1<ffi::F32>>().Ret<ffi::BufferR1<ffi::F32>>());

// metadata of a version that does not exist
extern "C" XLA_FFI_Error* future_version(XLA_FFI_CallFrame* frame) {
  auto* extension = reinterpret_cast<XLA_FFI_Metadata_Extension*>(frame->extension_start);
  extension->metadata->api_version.major_version = 0;
  extension->metadata->api_version.minor_version = 99;
  return nullptr;
}
