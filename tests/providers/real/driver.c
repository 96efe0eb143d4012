/* A driver that answers as it is told when it is compiled: CODE of cuInit, COUNT of devices, the CUDA VERSION that it
 * serves, and the compute CAPABILITY of its devices. */
#include <string.h>

int cuInit(unsigned flags) { return CODE; }
int cuDriverGetVersion(int *version) { *version = VERSION; return 0; }
int cuDeviceGetCount(int *count) { *count = COUNT; return CODE; }
int cuDeviceGet(int *device, int number) { *device = number; return 0; }
int cuDeviceGetName(char *name, int length, int device) { strncpy(name, "Paper GPU", length); return 0; }
int cuDeviceGetAttribute(int *value, int attribute, int device) { *value = attribute == 75 ? CAPABILITY : 0; return 0; }
/* The provider's library is linked with it. */
int cuTensorMapEncodeTiled(void) { return 1; }
