// Package packaging has no code: its tests build, install and run the parts of a release. With PENSTOCK_TEST_LONG
// they build everything from a fresh clone; otherwise they package a binary built like those of the other tests.
package packaging
