// Package packaging has no code: its tests build what a release is made of and install and run it. With
// PENSTOCK_TEST_LONG they build everything from a fresh clone; otherwise they pack a binary built as the other tests
// do.
package packaging
