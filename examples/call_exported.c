/* Calls a program that `xloom export examples/mlp.hlo` made: see examples/export.py. */
#include <stdio.h>

#include "mlp.h"

int main(void) {
  float x[4][8], probabilities[4][3], temperature = 2;
  for (int i = 0; i < 4; ++i)
    for (int k = 0; k < 8; ++k) x[i][k] = (float)(i - k) / 4;

  mlp *program;
  mlp_status status = mlp_create(&program);
  if (status != MLP_OK) {
    fprintf(stderr, "mlp: %s\n", mlp_status_text(status));
    return 1;
  }
  mlp_arguments arguments = {.x = x[0], .temperature = &temperature};
  mlp_results results = {.result = probabilities[0]};
  status = mlp_run(program, &arguments, &results);
  if (status == MLP_OK)
    for (int i = 0; i < 4; ++i) printf("%.6f %.6f %.6f\n", probabilities[i][0], probabilities[i][1], probabilities[i][2]);
  else
    fprintf(stderr, "mlp: %s\n", mlp_message(program));
  mlp_destroy(program);
  return status != MLP_OK;
}
