// Tells the thread sanitizer of the order that OpenMP's regions have. libgomp is not built for the sanitizer, and its
// threads wait for each other by system calls that the sanitizer cannot see: every tensor filled in one parallel loop
// and read after it would be a race. This library stands before libgomp in the order of symbols, so that the regions of
// our objects and those inside of LibTorch both come by here. It is compiled without the sanitizer, and says nothing
// more than what OpenMP promises: what came before a region is before all of it, and all of it is before what comes
// after.
#include <cstdio>
#include <cstdlib>

#include <dlfcn.h>

// Missing in programs without the sanitizer, into which Python's tests preload this library too.
extern "C" __attribute__((weak)) void __tsan_acquire(void* address);
extern "C" __attribute__((weak)) void __tsan_release(void* address);

namespace {

using Body = void (*)(void*);
using Parallel = void (*)(Body, void*, unsigned, unsigned);

struct Region {
  Body body;
  void* data;
  char begin = 0;  // the address of each is what threads release and acquire
  char end = 0;
};

void release(void* address) {
  if (__tsan_release != nullptr) __tsan_release(address);
}

void acquire(void* address) {
  if (__tsan_acquire != nullptr) __tsan_acquire(address);
}

void run_body(void* pointer) {
  auto* region = static_cast<Region*>(pointer);
  acquire(&region->begin);
  region->body(region->data);
  release(&region->end);
}

// Whoever enters a region has loaded libgomp; it is not loaded by this library, because it reads its settings while it
// is.
Parallel find_parallel() {
  void* library = dlopen("libgomp.so.1", RTLD_LAZY | RTLD_NOLOAD);
  void* found = library == nullptr ? nullptr : dlsym(library, "GOMP_parallel");
  if (found == nullptr) {
    std::fprintf(stderr, "openmp_order: GOMP_parallel must be in libgomp.so.1: %s\n", dlerror());
    std::abort();
  }
  return reinterpret_cast<Parallel>(found);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) void GOMP_parallel(Body body, void* data, unsigned threads,
                                                                     unsigned flags) {
  static const Parallel parallel = find_parallel();
  Region region{body, data};
  release(&region.begin);
  parallel(run_body, &region, threads, flags);
  acquire(&region.end);
}
