package config

import "testing"

func TestLocal(t *testing.T) {
	for address, want := range map[string]string{
		":8091":          "127.0.0.1:8091",
		"0.0.0.0:8091":   "127.0.0.1:8091",
		"[::]:8091":      "[::1]:8091",
		"10.0.0.1:8091":  "10.0.0.1:8091",
		"localhost:8091": "localhost:8091",
		"/run/penstock":  "/run/penstock",
	} {
		if got := Local(address); got != want {
			t.Errorf("%q: %q, want %q", address, got, want)
		}
	}
}
