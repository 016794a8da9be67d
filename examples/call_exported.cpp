// Calls a program that `xloom export examples/mlp.hlo` made, whose loops run in threads of our own: see export.py.
#include <array>
#include <cstdio>
#include <memory>
#include <thread>
#include <vector>

#include "mlp.h"

static void in_threads(void *, void (*body)(void *, std::int64_t), void *context, std::int64_t count) {
  std::vector<std::thread> threads;
  for (std::int64_t k = 1; k < count; ++k) threads.emplace_back(body, context, k);
  body(context, 0);
  for (auto &thread : threads) thread.join();
}

int main() {
  mlp_use_threads(in_threads, nullptr, 2);
  mlp *made = nullptr;
  if (mlp_status status = mlp_create(&made); status != MLP_OK) {
    std::fprintf(stderr, "mlp: %s\n", mlp_status_text(status));
    return 1;
  }
  std::unique_ptr<mlp, decltype(&mlp_destroy)> program(made, mlp_destroy);

  std::array<float, 32> x{};
  for (int i = 0; i < 4; ++i)
    for (int k = 0; k < 8; ++k) x[i * 8 + k] = static_cast<float>(i - k) / 4;
  float temperature = 2;
  std::array<float, 12> probabilities{};
  mlp_arguments arguments{x.data(), &temperature};
  mlp_results results{probabilities.data()};
  if (mlp_run(program.get(), &arguments, &results) != MLP_OK) {
    std::fprintf(stderr, "mlp: %s\n", mlp_message(program.get()));
    return 1;
  }
  for (int i = 0; i < 12; i += 3)
    std::printf("%.6f %.6f %.6f\n", probabilities[i], probabilities[i + 1], probabilities[i + 2]);
}
