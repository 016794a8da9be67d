/* So that source written for XLA compiles as it stands; what it declares is in our header. */
#include <xloom/custom_call.h>
