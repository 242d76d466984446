/* Preloaded into redis-server, this moves its wall clock by the microseconds in the file that
   PENSTOCK_TEST_CLOCK names, which a test writes while the server runs. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>

static volatile int64_t *offset;

__attribute__((constructor)) static void start(void) {
	const char *file = getenv("PENSTOCK_TEST_CLOCK");
	int fd = file ? open(file, O_RDONLY) : -1;
	void *at = fd < 0 ? MAP_FAILED : mmap(0, sizeof *offset, PROT_READ, MAP_SHARED, fd, 0);
	if (at != MAP_FAILED) offset = at;
}

int clock_gettime(clockid_t id, struct timespec *ts) {
	static int (*real)(clockid_t, struct timespec *);
	if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
	int result = real(id, ts);
	if (result == 0 && offset && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) {
		int64_t ns = ts->tv_nsec + *offset % 1000000 * 1000;
		ts->tv_sec += *offset / 1000000 + ns / 1000000000 - (ns < 0);
		ts->tv_nsec = ns < 0 ? ns + 1000000000 : ns % 1000000000;
	}
	return result;
}

int gettimeofday(struct timeval *restrict tv, void *restrict zone) {
	(void)zone;
	struct timespec ts;
	if (clock_gettime(CLOCK_REALTIME, &ts) != 0) return -1;
	tv->tv_sec = ts.tv_sec;
	tv->tv_usec = ts.tv_nsec / 1000;
	return 0;
}

time_t time(time_t *t) {
	struct timespec ts;
	clock_gettime(CLOCK_REALTIME, &ts);
	if (t) *t = ts.tv_sec;
	return ts.tv_sec;
}
